// Random arrivals, passes, guesses and cancels against the symbolic scheduler with guesses. It
// predicts the chunks, their blocks, the guesses that run and those that are left. No slot is read
// that holds another prefix. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>

#include "lessons/08_scheduler/test/random_serving.h"
#include "lookahead_scheduler.h"
#include "symbolic_lookahead.h"

namespace {

using lesson08_test::Settings;
using lesson08_test::Tokens;

int64_t num_preemptions = 0, num_proposed = 0, num_accepted = 0;  // of all runs

/// The same text, the same guesses: any number of them, right as often as two coins are equal.
class AnyGuesses : public lesson09::Drafter {
 public:
  Tokens propose(int64_t, std::span<const int32_t> tokens, int max_guesses) override {
    uint64_t text = tokens.size();
    for (const int32_t token : tokens) text = text * 31 + static_cast<uint64_t>(token);
    kvtest::Random random(text);
    Tokens guesses(std::min<size_t>(max_guesses, random.below(7)));
    for (int32_t& guess : guesses) guess = random.below(2);
    return guesses;
  }
};

struct Pair {
  explicit Pair(const Settings& s)
      : num_guesses(s.num_guesses),
        pool(s.num_blocks, Settings::kBlockSize, s.free_order),
        manager(pool, {.hasher = lesson06::narrow_hasher(s.bits), .caching = s.caching}),
        scheduler(manager, pool, drafter, s.options, {s.num_guesses}),
        model_pool(s.num_blocks, Settings::kBlockSize, s.free_order, s.caching),
        model(model_pool, drafter, s.options, s.num_guesses) {}

  void submit_to_model(int64_t id, const Tokens& prompt, int max_tokens, int priority, int salt,
                       bool skips) {
    model.submit(id, prompt, max_tokens, priority, salt, skips);
  }
  Tokens guesses(int64_t id) const {
    const auto guesses = scheduler.guesses(id);
    return Tokens(guesses.begin(), guesses.end());
  }
  Tokens model_guesses(int64_t id) const { return model.guesses(id); }
  void count() const {
    num_preemptions += scheduler.num_preemptions();
    num_proposed += scheduler.num_proposed();
    num_accepted += scheduler.num_accepted();
  }
  std::string settings() const { return fmt::format(", {} guesses", num_guesses); }

  int num_guesses;
  AnyGuesses drafter;
  lesson07::BlockPool pool;
  lesson06::KvCacheManager manager;
  lesson09::LookaheadScheduler scheduler;
  lesson09::SymbolicLookaheadPool model_pool;
  lesson09::SymbolicLookahead model;
};

}  // namespace

TEST_CASE("random arrivals, passes, guesses and cancels: all of it is as predicted") {
  const int64_t num_ops = kvtest::num_random_ops(2'000'000, 50'000);
  const auto report = kvtest::search<lesson08_test::RandomServing<Pair>>(num_ops, 250);
  CHECK_MESSAGE(report.empty(), report);
  CHECK(num_preemptions > num_ops / 200);
  CHECK(num_accepted > num_ops / 50);
  CHECK(num_proposed > 2 * num_accepted);
}
