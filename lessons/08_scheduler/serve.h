#pragma once

// Serving a list of requests: what can be chosen, the loop around a server's steps, and what it
// measures.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/at_end.h"
#include "lessons/03_paged_blocks/engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "step.h"

namespace lesson08 {

struct ServeOptions {
  SchedulerOptions scheduler{};
  lesson07::FreeOrder free_order = lesson07::FreeOrder::kAppend;
  lesson06::BlockHasher hasher = {};
  bool caching = true;
  /// Told what happens to the cache. A new pool begins empty, and it is told so.
  lesson07::EventSink on_cache_event = {};
  /// If not 0, and num_blocks is 0: the pool takes this share of the memory that is free when it is
  /// made, but at most as many blocks as can be numbered.
  double memory_utilization = 0;
  /// Greedy requests only: the device finds the largest logit, and logits never come to the host.
  /// A completion's digest is then that of no logits.
  bool choose_on_device = false;
  /// A pass of decodes is padded to a multiple of this number of rows: a CUDA graph that was
  /// captured at that size can be replayed.
  int pad_decodes_to = 1;
};

/// Throws UserError for those that make no sense.
void check(const ServeOptions& options);
/// Returns `serve` if both make sense, and throws UserError if not.
const ServeOptions& checked(const lesson03::PagedOptions& options, const ServeOptions& serve);
/// Without caching no block is worth more than another one.
inline lesson07::FreeOrder free_order(const ServeOptions& serve) {
  return serve.caching ? serve.free_order : lesson07::FreeOrder::kAppend;
}
/// The table of a padding row: the null block.
lesson03::BlockTable padding_table(int block_size);

/// Blocks that fit `utilization` of `free_bytes`. Throws UserError, with both numbers, if that is
/// not one block, or for a share that is not above 0 and at most 1.
int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block);

/// Blocks of a pool for requests that need `all` blocks together: options.num_blocks; or if it is 0
/// a share of the memory, or `all`. `config` has the layers of a block. Throws UserError for more
/// than can be numbered.
int pool_size(int64_t all, const kv::ModelConfig& config, const lesson03::PagedOptions& options,
              const ServeOptions& serve, const kv::Model& model);

/// Blocks of the longest request at its end.
int max_blocks_of_one(std::span<const kv::Request> requests, int block_size);

/// When a request comes, and how important it is.
struct Arrival {
  int pass = 0;      // it is submitted before this pass (passes without work are skipped)
  int priority = 0;  // for Order::kPriority: the smallest number first
};

/// Seconds since serve() began.
struct RequestTimes {
  double arrived = 0;
  double first_token = 0;  // 0: there was none
  double ended = 0;
  int num_cached_tokens = 0;  // when it started first
  int num_preemptions = 0;
};

struct ServeResult {
  kv::GenerateResult generated;
  std::vector<RequestTimes> times;  // in the order of the requests
  int64_t num_preemptions = 0;
  double waste = 0;  // empty slots of used blocks, as a share; mean over the passes
  /// Of each pass, with choose_on_device: TokenChooser::host_seconds().
  std::vector<double> host_seconds;
};

/// Called when a pass is composed, before it runs. Returning false cancels every request that has
/// not ended.
template <class Scheduler>
using PassCallback = std::function<bool(const Scheduler&, const SchedulerOutput&)>;

/// The requests of one serve(): when they come, what they have generated, and what is measured.
class ServedRequests {
 public:
  /// Borrows both. `arrivals` is empty or has one for each request. A further sample of a prompt
  /// comes a pass after the others, so that it finds its prompt.
  ServedRequests(std::span<const kv::Request> requests, std::span<const Arrival> arrivals);

  /// Requests that come before the next pass. Passes are skipped if the server is idle.
  std::vector<size_t> next_arrivals(bool idle);
  bool all_came() const { return num_came_ == to_come_.size(); }
  int priority(size_t request) const { return arrivals_[request].priority; }

  /// Before a pass runs: its hits, and the slots and bytes in use.
  template <class Scheduler>
  void note_pass(const Scheduler& scheduler, const SchedulerOutput& pass,
                 const lesson03::PagedKvCache& cache) {
    for (const auto* ids : {&pass.started, &pass.resumed}) {
      for (const int64_t id : *ids) note_hit(scheduler.request(id));
    }
    num_seqs_ = static_cast<int>(pass.chunks.size());
    note_blocks(scheduler.manager().pool().num_used(), scheduler.manager().num_slots_used(), cache);
  }
  /// A token of a request. Returns false if the request is cancelled: by the callback, or with an
  /// earlier token of the step.
  bool note_token(const NewToken& token, const kv::TokenCallback& on_token);
  /// After a step and its tokens.
  void note_step(const StepOutput& step, const TokenChooser& chooser);
  ServeResult result();

 private:
  double now() const;
  void note_hit(const ScheduledRequest& request);
  void note_blocks(int64_t blocks_used, int64_t slots_used, const lesson03::PagedKvCache& cache);

  std::span<const kv::Request> requests_;
  std::vector<Arrival> arrivals_;  // [requests]
  std::vector<size_t> to_come_;    // requests that generate tokens, in the order of arrival
  std::vector<bool> cancelled_;    // [requests], by the callback
  std::vector<bool> cut_;          // [requests], cancelled before the last of its tokens
  size_t num_came_ = 0;            // of to_come_
  int pass_ = -1;
  int num_seqs_ = 0;  // of the pass
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  kv::PassTimer timer_;
  ServeResult result_;
};

/// Serves the requests to their end; request i has the id i. The server is idle before and, however
/// the call ends, afterwards. Throws UserError, before anything is computed, for a request that can
/// never run.
template <class Server>
ServeResult serve(Server& server, std::span<const kv::Request> requests,
                  std::span<const Arrival> arrivals, const kv::TokenCallback& on_token = {},
                  const PassCallback<typename Server::Scheduler>& on_pass = {}) {
  for (size_t i = 0; i < requests.size(); ++i) server.check(static_cast<int64_t>(i), requests[i]);
  ServedRequests served(requests, arrivals);
  const kv::AtEnd abort_all{[&] {
    for (size_t i = 0; i < requests.size(); ++i) server.abort(static_cast<int64_t>(i));
  }};
  bool goes_on = true;
  const auto observe = [&](const auto& scheduler, const SchedulerOutput& pass) {
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
    served.note_step(step, server.chooser());
  }
  return served.result();
}

/// A server as one of the ladder's engines. The server, and what its cache holds, stays from one
/// call to the next, unless a call needs a larger pool.
template <class Server>
class EngineOf : public kv::Engine {
 public:
  using Scheduler = typename Server::Scheduler;

  /// All requests come at once.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override {
    return serve(requests, {}, on_token).generated;
  }
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {},
                    const PassCallback<Scheduler>& on_pass = {}) {
    if (requests.empty()) return {};
    return lesson08::serve(server_for(requests), requests, arrivals, on_token, on_pass);
  }
  /// Before the next pass the cache is forgotten, and running requests are preempted. For
  /// callbacks, too.
  void reset_prefix_cache() {
    if (server_) server_->reset_prefix_cache();
  }
  /// Null before the first call.
  const Server* server() const { return server_.get(); }
  const auto* manager() const { return server_ ? &server_->manager() : nullptr; }

 protected:
  /// Blocks of a pool in which the requests can all run at once.
  using BlocksFor = std::function<int(std::span<const kv::Request>)>;
  using MakeServer = std::function<std::unique_ptr<Server>(const lesson03::PagedOptions& sized)>;
  EngineOf(const kv::Model& model, const lesson03::PagedOptions& options, const ServeOptions& serve,
           BlocksFor blocks_for, MakeServer make_server)
      : model_(&model),
        options_(options),
        keeps_pool_(options.num_blocks == 0 && serve.memory_utilization != 0),
        on_cache_event_(serve.on_cache_event),
        blocks_for_(std::move(blocks_for)),
        make_server_(std::move(make_server)) {
    checked(options, serve);
  }

  /// The server, with a pool that is large enough for the requests.
  Server& server_for(std::span<const kv::Request> requests) {
    kv::check_requests(requests, model_->config());
    if (server_ && keeps_pool_) return *server_;
    lesson03::PagedOptions sized = options_;
    sized.num_blocks = blocks_for_(requests);
    if (server_ && server_->manager().pool().num_blocks() >= sized.num_blocks) {
      return *server_;
    }
    if (server_ && on_cache_event_) {
      on_cache_event_({.kind = lesson07::CacheEvent::Kind::kCleared});
    }
    server_.reset();  // the old blocks go before the new ones come
    server_ = make_server_(sized);
    return *server_;
  }

 private:
  const kv::Model* model_;
  lesson03::PagedOptions options_;
  bool keeps_pool_;
  lesson07::EventSink on_cache_event_;
  BlocksFor blocks_for_;
  MakeServer make_server_;
  std::unique_ptr<Server> server_;
};

}  // namespace lesson08
