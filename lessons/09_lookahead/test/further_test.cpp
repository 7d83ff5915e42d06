// The text's further task, once it is begun: LookaheadOptions::adaptive (lookahead_scheduler.h).

#include <doctest/doctest.h>

#include "common/todo.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "pooled_scheduler.h"

namespace {

using lesson06_test::range;
using lesson09_test::always;
using lesson09_test::Books;
using lesson09_test::FunctionDrafter;
using lesson09_test::Tokens;

template <class Options>
Options adaptive() {
  if constexpr (requires(Options options) { options.adaptive = true; }) {
    Options options;
    options.num_guesses = 4;
    options.adaptive = true;
    return options;
  } else {
    KV_TODO("give LookaheadOptions a member adaptive");
  }
}

struct PooledScheduler : Books, lesson09::LookaheadScheduler {
  explicit PooledScheduler(FunctionDrafter::Function drafts)
      : Books(32, 16, std::move(drafts)),
        LookaheadScheduler(books, pool, drafter, {}, adaptive<lesson09::LookaheadOptions>()) {}

  /// Runs a pass in which request 1 draws only the token 7. Returns the number of its guesses.
  size_t pass() {
    update(schedule().chunks);
    const size_t num_guesses = guesses(1).size();
    for (size_t rows = 1 + num_guesses; rows > 0 && wants_token(1); --rows) add_token(1, 7);
    check();
    return num_guesses;
  }
};

}  // namespace

TEST_CASE("adaptive: after wrong guesses one is guessed, until it is right") {
  int32_t guess = 8;
  PooledScheduler s([&](int64_t, auto, int max_guesses) { return Tokens(max_guesses, guess); });
  s.submit(1, range(0, 6), 60);
  CHECK(s.pass() == 4);
  CHECK(s.pass() == 1);
  CHECK(s.pass() == 1);
  guess = 7;
  CHECK(s.pass() == 1);
  CHECK(s.pass() == 2);
  CHECK(s.pass() == 3);
  CHECK(s.pass() == 4);
  CHECK(s.pass() == 4);
}

TEST_CASE("adaptive: one more than were right, of those that were tried") {
  PooledScheduler s([](int64_t, auto, int max_guesses) {
    Tokens guesses{7, 7, 8, 8};
    guesses.resize(max_guesses);
    return guesses;
  });
  s.submit(1, range(0, 6), 60);
  CHECK(s.pass() == 4);  // two of them right
  CHECK(s.pass() == 3);  // and again
  CHECK(s.pass() == 3);
}

TEST_CASE("adaptive: a pass without guesses changes nothing") {
  bool says = true;
  PooledScheduler s([&](int64_t, auto, int max_guesses) {
    return Tokens(says ? static_cast<size_t>(max_guesses) : 0, 8);
  });
  s.submit(1, range(0, 6), 60);
  CHECK(s.pass() == 4);
  says = false;
  CHECK(s.pass() == 0);
  says = true;
  CHECK(s.pass() == 1);
}

TEST_CASE("adaptive: a request that comes again with an old number starts over") {
  PooledScheduler s(always(8));
  s.submit(1, range(0, 6), 60);
  CHECK(s.pass() == 4);
  CHECK(s.pass() == 1);
  s.finish(1);
  s.submit(1, range(50, 53), 60);
  CHECK(s.pass() == 4);
}
