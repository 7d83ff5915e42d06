// Random arrivals, passes and cancels against the rules: the books are right after every one, no
// slot is read before it is written, and every hit holds the request's own prefix.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "kv_cache_manager.h"
#include "scheduler.h"

namespace {

using lesson08::Chunk;
using lesson08::KvCacheManager;
using lesson08::Order;
using lesson08::Scheduler;
using Tokens = std::vector<int32_t>;

int64_t num_operations() {
  const char* const set = std::getenv("KV_RANDOM_OPS");
  if (set) return std::atoll(set) / 10;
#if defined(__SANITIZE_ADDRESS__)
  return 40'000;
#else
  return 600'000;
#endif
}

class Run {
 public:
  Run(uint64_t seed, int bits, Order order, int budget)
      : rng_(seed),
        manager_({.num_blocks = kBlocks, .block_size = kBlockSize, .hash_bits = bits}),
        scheduler_(manager_, {.max_tokens_per_pass = budget, .max_running = 5, .order = order}),
        slots_((kBlocks + 1) * kBlockSize) {}

  void operation() {
    const auto kind = rng_() % 8;
    if (kind < 2) {
      submit();
    } else if (kind < 3 && !left_.empty()) {
      end(std::next(left_.begin(), static_cast<long>(rng_() % left_.size()))->first);
    } else {
      pass();
    }
    scheduler_.check();
  }
  /// With no more arrivals everything ends.
  void drain() {
    for (int passes = 0; !scheduler_.idle(); ++passes) {
      REQUIRE(passes < 10'000);
      pass();
    }
    REQUIRE(manager_.pool().num_used() == 0);
  }
  int64_t num_preemptions() const { return scheduler_.num_preemptions(); }

 private:
  static constexpr int kBlocks = 10, kBlockSize = 2;

  void submit() {
    if (left_.size() >= 12) return;
    Tokens prompt(1 + rng_() % 9);
    for (int32_t& token : prompt) token = static_cast<int32_t>(rng_() % 2);
    const int max_tokens = 1 + static_cast<int>(rng_() % 8);
    scheduler_.submit(next_, prompt, max_tokens, static_cast<int>(rng_() % 3));
    left_[next_++] = max_tokens;
  }
  void end(int64_t id) {
    REQUIRE(scheduler_.finish(id));
    left_.erase(id);
  }
  void pass() {
    const std::vector<Chunk> chunks = scheduler_.schedule();
    int rows = 0;
    for (const Chunk& chunk : chunks) {
      // The chunk's rows are written, then all tokens before them are read.
      const auto& request = scheduler_.request(chunk.id);
      const auto& table = manager_.table(chunk.id);
      REQUIRE(table.num_tokens() == request.num_computed + chunk.num_tokens);
      for (int t = request.num_computed; t < table.num_tokens(); ++t) {
        slots_[static_cast<size_t>(table.slot(t))] =
            Tokens(request.tokens.begin(), request.tokens.begin() + t + 1);
      }
      rows += chunk.num_tokens;
    }
    for (const Chunk& chunk : chunks) {
      const auto& request = scheduler_.request(chunk.id);
      const auto& table = manager_.table(chunk.id);
      for (int t = 0; t < table.num_tokens(); ++t) {
        REQUIRE(slots_[static_cast<size_t>(table.slot(t))] ==
                Tokens(request.tokens.begin(), request.tokens.begin() + t + 1));
      }
    }
    scheduler_.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!scheduler_.wants_token(chunk.id)) continue;
      scheduler_.add_token(chunk.id, static_cast<int32_t>(rng_() % 2));
      if (--left_.at(chunk.id) == 0) end(chunk.id);
    }
    REQUIRE((rows > 0 || scheduler_.running().empty() || chunks.empty()));
  }

  std::mt19937_64 rng_;
  KvCacheManager manager_;
  Scheduler scheduler_;
  std::vector<Tokens> slots_;    // the exact prefix whose K and V stand in each slot
  std::map<int64_t, int> left_;  // tokens that each request still generates
  int64_t next_ = 0;
};

}  // namespace

TEST_CASE(
    "B16 S2 S5 random arrivals, passes and cancels: every slot that is read holds its own prefix") {
  constexpr int kRuns = 8;
  int64_t preemptions = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto seed = static_cast<uint64_t>(i) + 1;
    CAPTURE(seed);
    Run run(seed, i % 2 == 0 ? 64 : 3, i % 4 < 2 ? Order::kFirstCome : Order::kPriority,
            i < 4 ? 64 : 5);
    for (int64_t operation = 0; operation < num_operations() / kRuns; ++operation) {
      CAPTURE(operation);
      run.operation();
    }
    run.drain();
    preemptions += run.num_preemptions();
  }
  CHECK(preemptions > 1000);
}
