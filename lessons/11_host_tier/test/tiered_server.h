#pragma once

// A scheduler over tiers, and passes without a model: they write what K and V depend on, and
// compare all that they read.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbolic_tiers.h"
#include "tiered_scheduler.h"

namespace lesson11 {

class TieredServer : public Tiers {
 public:
  explicit TieredServer(const TierSizes& sizes, const SchedulerOptions& options = {},
                        LoadPolicy policy = LoadPolicy::kQuicker)
      : Tiers(sizes), options_(options), policy_(policy) {
    start_scheduler();
  }

  TieredScheduler& scheduler() { return *scheduler_; }
  const TieredScheduler& scheduler() const { return *scheduler_; }
  void submit(int64_t id, const Tokens& prompt, int max_tokens = 1,
              const lesson08::RequestOptions& options = {}, int salt = 0) {
    lesson08::RequestOptions with_keys = options;
    with_keys.extra_keys = keys_of(salt);
    scheduler_->submit(id, prompt, max_tokens, std::move(with_keys));
    salts_[id] = salt;
  }
  /// A pass, up to where it is done. Copies end only if the pass has to wait for them.
  std::vector<Chunk> begin_pass() {
    const std::vector<Chunk> chunks = scheduler_->schedule().chunks;
    check();
    if (!chunks.empty()) manager().sink();
    for (const Chunk& chunk : chunks) {
      const auto& request = scheduler_->request(chunk.id);
      kvtest::require(!scheduler_->is_loading(chunk.id), "a request runs that is loading");
      const int end = request.num_computed + chunk.num_tokens;
      write(chunk.id, first(request.tokens, end), request.num_computed, salts_.at(chunk.id));
    }
    for (const Chunk& chunk : chunks) {
      const auto& request = scheduler_->request(chunk.id);
      Kv kv = contents(chunk.id);
      kv.resize(static_cast<size_t>(request.num_computed + chunk.num_tokens));
      kvtest::require(
          kv == kv_of(first(request.tokens, static_cast<int>(kv.size())), salts_.at(chunk.id)),
          "a request reads what is not its own");
    }
    return chunks;
  }
  /// Each request that has its logits gets a token, and ends with its last one.
  void end_pass(const std::vector<Chunk>& chunks, int32_t token = 7) {
    scheduler_->update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!is_there(chunk.id) || !scheduler_->wants_token(chunk.id)) continue;
      scheduler_->add_token(chunk.id, token);
      const auto& request = scheduler_->request(chunk.id);
      if (std::ssize(request.tokens) == request.most_tokens) finish(chunk.id);
    }
    check();
  }
  std::vector<Chunk> pass() {
    std::vector<Chunk> chunks = begin_pass();
    end_pass(chunks);
    return chunks;
  }
  void finish(int64_t id) {
    kvtest::require(scheduler_->finish(id), "a request is not there");
    salts_.erase(id);
  }
  bool is_there(int64_t id) const { return salts_.contains(id); }
  const std::map<int64_t, int>& salts() const { return salts_; }  // of the requests
  /// As an engine does: with nothing to run it waits for copies. Returns the number of passes.
  int run_to_end() {
    int passes = 0;
    for (; !scheduler_->idle(); ++passes) {
      kvtest::require(passes < 10'000, "somebody is never served");
      if (pass().empty()) manager().wait_for_a_move();
    }
    return passes;
  }
  /// Without its requests. What lay in the pools is found in the file.
  void restart() {
    while (!salts_.empty()) finish(salts_.begin()->first);
    scheduler_.reset();
    Tiers::restart();
    start_scheduler();
  }
  void check() const {
    scheduler_->check();
    manager().check_tiers();
  }

 private:
  static Tokens first(const Tokens& tokens, int n) { return {tokens.begin(), tokens.begin() + n}; }
  void start_scheduler() {
    scheduler_ = std::make_unique<TieredScheduler>(manager(), options_, policy_);
  }

  SchedulerOptions options_;
  LoadPolicy policy_;
  std::unique_ptr<TieredScheduler> scheduler_;
  std::map<int64_t, int> salts_;  // of each request
};

}  // namespace lesson11
