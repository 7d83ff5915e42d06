// Random arrivals, passes and cancels against the symbolic scheduler: it predicts the chunks, their
// blocks and the preempted requests. No slot is read before it is written, and every hit holds the
// request's own prefix. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>

#include "random_serving.h"

namespace {

using lesson08_test::Settings;
using lesson08_test::Tokens;

int64_t num_preemptions = 0;  // of all runs

struct Pair {
  explicit Pair(const Settings& s)
      : pool(s.num_blocks, Settings::kBlockSize, s.free_order),
        manager(pool, {.hasher = lesson06::narrow_hasher(s.bits), .caching = s.caching}),
        scheduler(manager, s.options),
        model_pool(s.num_blocks, Settings::kBlockSize, s.free_order, s.caching),
        model(model_pool, s.options) {}

  void submit_to_model(int64_t id, const Tokens& prompt, int, int priority, int salt, bool skips) {
    model.submit(id, prompt, priority, salt, skips);
  }
  Tokens guesses(int64_t) const { return {}; }
  Tokens model_guesses(int64_t) const { return {}; }
  void count() const { num_preemptions += scheduler.num_preemptions(); }
  std::string settings() const { return ""; }

  lesson07::BlockPool pool;
  lesson08::KvCacheManager manager;
  lesson08::Scheduler scheduler;
  lesson07::SymbolicPool model_pool;
  lesson08::SymbolicScheduler model;
};

}  // namespace

TEST_CASE("random arrivals, passes and cancels: all of it is as predicted") {
  const int64_t num_ops = kvtest::num_random_ops(4'000'000, 50'000);
  const auto report = kvtest::search<lesson08_test::RandomServing<Pair>>(num_ops, 250);
  CHECK_MESSAGE(report.empty(), report);
  CHECK(num_preemptions > num_ops / 100);
}
