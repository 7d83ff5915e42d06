#pragma once

// A server of the router: its cache, the requests that it was sent and has not answered, and
// how fast it computes prompts.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "instruments/route/cache_mirror.h"
#include "instruments/route/lru_blocks.h"
#include "instruments/route/policy.h"

namespace route {

using Clock = std::chrono::steady_clock;

/// The prompts of one request: their full blocks, by hash.
struct Prompts {
  struct One {
    int64_t tokens = 0;
    std::vector<uint64_t> blocks = {};
  };
  std::vector<One> all = {};
  int block_size = 1;

  Prompt size() const;
  /// Full blocks that can be found: all but the last token's, which gives the logits.
  int64_t num_findable() const;
};

class Upstream {
 public:
  /// Limit of the blocks kept of prompts that were sent, for SGLang's policy, which reads no
  /// events.
  static constexpr int64_t kMaxSentBlocks = 1 << 20;

  Upstream() : sent_(kMaxSentBlocks) {}

  CacheMirror mirror;

  /// Without the rate. `in_store` has the number of first blocks of each prompt that the shared
  /// store has; empty without a store.
  ServerView view(const Prompts& prompts, std::span<const int64_t> in_store = {}) const;

  /// A request is sent to the server. Returns its number here.
  int64_t begin(std::shared_ptr<const Prompts> prompts, bool stream, Clock::time_point now);
  /// The first byte of its answer has come: its prompts are computed.
  void first_byte(int64_t request, Clock::time_point now);
  void end(int64_t request, Clock::time_point now);
  /// The mirror has changed. Blocks that have come show how far prompts are.
  void cache_changed(Clock::time_point now);

  int64_t waiting_tokens() const;
  int64_t num_running() const { return std::ssize(requests_); }
  int64_t num_waiting() const { return num_waiting_; }
  // Tokens of prompts computed, and the seconds in which some waited; old ones count less.
  double tokens_computed() const { return tokens_computed_; }
  double seconds_busy() const { return seconds_busy_; }

 private:
  struct Request {
    std::shared_ptr<const Prompts> prompts;
    std::vector<int64_t> done;  // blocks of each prompt, cached or computed
    int64_t missing = 0;        // tokens that were neither when it was sent
    bool stream = false;
    bool waits = true;  // for its prompts to be computed
  };
  int64_t cached(const Prompts::One& prompt, int block_size) const;
  static int64_t tokens_left(const Request& request);
  void computed(Request& request, Clock::time_point now);
  void count_time(Clock::time_point now);

  std::unordered_map<int64_t, Request> requests_;
  std::unordered_map<uint64_t, int> expected_;  // blocks of the requests that wait
  LruBlocks sent_;
  int64_t next_ = 0, num_waiting_ = 0, held_blocks_ = 0;
  double tokens_computed_ = 0, seconds_busy_ = 0;
  Clock::time_point counted_until_ = {};
};

/// Tokens of prompts that each server computes in a second: the mean of all servers, unless its own
/// rate is at least 1.5 times as large, or at most two thirds. Measured rates of equal machines
/// differ a little, and would decide each tie. 1 for all before anything is measured.
std::vector<double> rates_of(std::span<const Upstream* const> servers);

}  // namespace route
