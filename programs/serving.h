#pragma once

// Serving a list of requests: the loop around a server's steps, what it measures, and the server as
// an engine of the ladder. A server has check(), submit(), abort(), step() and idle(), as lesson
// 08's, and shows its scheduler, its manager and its cache to be measured.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/defer.h"
#include "qwen3/generation.h"
#include "qwen3/server.h"

namespace kv {

/// A request's arrival and its priority.
struct Arrival {
  int pass = 0;      // it is submitted before this pass (passes without work are skipped)
  int priority = 0;  // by priority: the smallest number first
};

/// Seconds since serve() began.
struct RequestTimes {
  double arrived = 0;
  double first_token = 0;  // 0 means that no token came
  double ended = 0;
  int num_cached_tokens = 0;  // tokens found in the cache when it first started
  int num_preemptions = 0;
};

struct ServeResult {
  GenerateResult generated;
  std::vector<RequestTimes> times;  // in the order of the requests
  int64_t num_preemptions = 0;
  double waste = 0;  // empty slots of used blocks, as a share; mean over the passes
};

/// The return type of Scheduler::schedule(): the next pass.
template <class Scheduler>
using ScheduledPass = std::remove_cvref_t<decltype(std::declval<Scheduler&>().schedule())>;

/// Called when a pass is composed, before it runs. Returning false cancels every request that has
/// not ended.
template <class Scheduler>
using PassCallback = std::function<bool(const Scheduler&, const ScheduledPass<Scheduler>&)>;

/// The requests of one serve(): when they come, what they have generated, and what is measured.
class ServedRequests {
 public:
  /// Borrows the requests. `arrivals` is empty or has one for each request. A further sample of a
  /// prompt comes a pass after the others, so that it finds its prompt.
  ServedRequests(std::span<const Request> requests, std::span<const Arrival> arrivals);

  /// Requests that come before the next pass. Passes are skipped if the server is idle.
  std::vector<size_t> next_arrivals(bool idle);
  bool all_came() const { return num_came_ == to_come_.size(); }
  int priority(size_t request) const { return arrivals_[request].priority; }

  /// Before a pass runs: its hits, and the slots and bytes in use.
  template <class Scheduler, class Cache>
  void note_pass(const Scheduler& scheduler, const ScheduledPass<Scheduler>& pass,
                 const Cache& cache) {
    for (const int64_t id : pass.started) {
      note_hit(scheduler.request(id).num_cached);
      times_of(id).num_cached_tokens = scheduler.request(id).num_cached;
    }
    for (const int64_t id : pass.resumed) note_hit(scheduler.request(id).num_cached);
    num_seqs_ = static_cast<int>(pass.chunks.size());
    const int64_t blocks = scheduler.manager().pool().num_used();
    const int64_t slots = scheduler.manager().num_slots_used();
    note_blocks(blocks, blocks * cache.block_size(), slots);
    note_kv_bytes(result_.generated.counters, blocks * cache.bytes_per_block(),
                  slots * cache.bytes_per_token());
  }
  /// A token of a request. Returns false if the request is cancelled: by the callback, or with an
  /// earlier token of the step.
  bool note_token(const NewToken& token, const TokenCallback& on_token);
  /// After a step and its tokens.
  void note_step(const StepOutput& step);
  ServeResult result();

 private:
  double now() const;
  RequestTimes& times_of(int64_t id) { return result_.times[static_cast<size_t>(id)]; }
  void note_hit(int num_tokens);
  void note_blocks(int64_t num_blocks, int64_t num_slots, int64_t num_slots_used);

  std::span<const Request> requests_;
  std::vector<Arrival> arrivals_;  // [requests]
  std::vector<size_t> to_come_;    // requests that generate tokens, in the order of arrival
  std::vector<bool> cancelled_;    // [requests], by the callback
  std::vector<bool> cut_;          // [requests], cancelled before the last of its tokens
  size_t num_came_ = 0;            // of to_come_
  int pass_ = -1;
  int num_seqs_ = 0;  // of the pass
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  PassTimer timer_;
  ServeResult result_;
};

/// Serves the requests to their end; request i has the id i. The server is idle before and, however
/// the call ends, afterwards. Throws UserError, before anything is computed, for a request that can
/// never run.
template <class Server>
ServeResult serve(Server& server, std::span<const Request> requests,
                  std::span<const Arrival> arrivals, const TokenCallback& on_token = {},
                  const PassCallback<typename Server::Scheduler>& on_pass = {}) {
  for (size_t i = 0; i < requests.size(); ++i) server.check(static_cast<int64_t>(i), requests[i]);
  ServedRequests served(requests, arrivals);
  const Defer abort_all{[&] {
    for (size_t i = 0; i < requests.size(); ++i) server.abort(static_cast<int64_t>(i));
  }};
  bool goes_on = true;
  const auto observe = [&](const auto& scheduler, const auto& pass) {
    goes_on = !on_pass || on_pass(scheduler, pass);
    served.note_pass(scheduler, pass, server.cache());
  };
  while (!server.idle() || !served.all_came()) {
    for (const size_t i : served.next_arrivals(server.idle())) {
      server.submit(static_cast<int64_t>(i), requests[i], {.priority = served.priority(i)});
    }
    const StepOutput step = server.step(observe);
    if (!goes_on) break;
    for (const NewToken& token : step.tokens) {
      if (!served.note_token(token, on_token)) server.abort(token.id);
    }
    served.note_step(step);
  }
  return served.result();
}

/// A server as one of the ladder's engines. The server, and what its cache holds, stays from one
/// call to the next, unless a call needs a larger pool.
template <class Server>
class ServerEngine : public Engine {
 public:
  using Scheduler = typename Server::Scheduler;

  /// All requests come at once.
  GenerateResult generate(std::span<const Request> requests,
                          const TokenCallback& on_token = {}) override {
    return serve(requests, {}, on_token).generated;
  }
  ServeResult serve(std::span<const Request> requests, std::span<const Arrival> arrivals,
                    const TokenCallback& on_token = {},
                    const PassCallback<Scheduler>& on_pass = {}) {
    if (requests.empty()) return {};
    return kv::serve(server_for(requests), requests, arrivals, on_token, on_pass);
  }
  /// Empties the prefix cache and preempts the running requests before the next pass. May be called
  /// inside a callback.
  void reset_prefix_cache() {
    if (server_) server_->reset_prefix_cache();
  }
  /// Null before the first call.
  const Server* server() const { return server_.get(); }
  const auto* manager() const { return server_ ? &server_->manager() : nullptr; }

 protected:
  /// Blocks of the pool that serves these requests.
  using BlocksFor = std::function<int(std::span<const Request>)>;
  using MakeServer = std::function<std::unique_ptr<Server>(int num_blocks)>;
  /// Borrows the model. `on_new_pool` is called when a larger pool takes the place of another.
  ServerEngine(const Model& model, BlocksFor blocks_for, MakeServer make_server,
               std::function<void()> on_new_pool)
      : model_(&model),
        blocks_for_(std::move(blocks_for)),
        make_server_(std::move(make_server)),
        on_new_pool_(std::move(on_new_pool)) {}

  /// The server, with a pool that is large enough for the requests.
  Server& server_for(std::span<const Request> requests) {
    check_requests(requests, model_->config());
    const int num_blocks = blocks_for_(requests);
    if (server_ && server_->manager().pool().num_blocks() >= num_blocks) return *server_;
    if (server_) on_new_pool_();
    server_.reset();  // frees the old pool before the new one is allocated
    server_ = make_server_(num_blocks);
    return *server_;
  }

 private:
  const Model* model_;
  BlocksFor blocks_for_;
  MakeServer make_server_;
  std::function<void()> on_new_pool_;
  std::unique_ptr<Server> server_;
};

}  // namespace kv
