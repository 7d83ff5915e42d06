// Tests of lesson 09's n-grams: where a text's last tokens have come before.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "drafter.h"
#include "tests/support/readable.h"
#include "tests/support/shortened.h"

namespace {

using lesson09::find_continuation;
using lesson09::NgramDrafter;
using Tokens = std::vector<int32_t>;

Tokens guesses(const Tokens& tokens, int max_guesses, const lesson09::NgramOptions& options = {}) {
  return NgramDrafter(options).propose(0, tokens, max_guesses);
}

/// A simple, slow find_continuation(): lengths from the longest down, places from the first on.
size_t slowly(const Tokens& tokens, const lesson09::NgramOptions& options) {
  const auto n = static_cast<int>(tokens.size());
  for (int length = std::min(options.longest, n - 1); length >= options.shortest; --length) {
    const auto suffix = tokens.end() - length;
    for (int end = length; end < n; ++end) {
      if (std::equal(suffix, tokens.end(), tokens.begin() + end - length)) {
        return end;
      }
    }
  }
  return tokens.size();
}

}  // namespace

TEST_CASE("what came after the last tokens before is the guess, and no more than is wanted") {
  const Tokens tokens{1, 2, 3, 4, 5, 6, 1, 2};
  CHECK(guesses(tokens, 4) == Tokens{3, 4, 5, 6});
  CHECK(guesses(tokens, 1) == Tokens{3});
  CHECK(guesses(tokens, 0).empty());
  CHECK(guesses(tokens, 100) == Tokens{3, 4, 5, 6, 1, 2});  // all there is
}

TEST_CASE("an n-gram shorter than the shortest is no reason to guess") {
  const Tokens tokens{1, 2, 3, 9, 2};
  CHECK(guesses(tokens, 4).empty());
  CHECK(guesses(tokens, 4, {.longest = 4, .shortest = 1}) == Tokens{3, 9, 2});
}

TEST_CASE("the longest n-gram counts, wherever it is") {
  //                 2 3 -> 5      1 2 3 -> 6    the end: 1 2 3
  const Tokens tokens{2, 3, 5, 0, 1, 2, 3, 6, 0, 1, 2, 3};
  CHECK(guesses(tokens, 1) == Tokens{6});
  CHECK(guesses(tokens, 1, {.longest = 2, .shortest = 2}) == Tokens{5});
}

TEST_CASE("of equally long ones the first counts: more text comes after it") {
  const Tokens tokens{1, 2, 3, 1, 2, 4, 1, 2};
  CHECK(guesses(tokens, 3) == Tokens{3, 1, 2});
}

TEST_CASE("an n-gram may overlap its own repetition") {
  CHECK(guesses({5, 5, 5, 5}, 4, {.longest = 2, .shortest = 2}) == Tokens{5, 5});
  CHECK(guesses({5, 5, 5, 5}, 4, {.longest = 3, .shortest = 2}) == Tokens{5});
  CHECK(guesses({1, 2, 1, 2, 1}, 9, {.longest = 3, .shortest = 1}) == Tokens{2, 1});
}

TEST_CASE("a text too short to repeat anything has no guesses") {
  for (const Tokens& tokens : {Tokens{}, Tokens{1}, Tokens{1, 1}, Tokens{1, 2}}) {
    CAPTURE(tokens.size());
    CHECK(guesses(tokens, 4).empty());
  }
  CHECK(guesses({1, 1}, 4, {.longest = 4, .shortest = 1}) == Tokens{1});
  CHECK(guesses({1, 1, 1}, 4) == Tokens{1});
}

TEST_CASE("the example of vLLM's NgramProposer") {
  CHECK(guesses({1, 2, 3, 4, 2, 3}, 4, {.longest = 3, .shortest = 2}) == Tokens{4, 2, 3});
}

TEST_CASE("lengths that make no sense are refused") {
  CHECK_THROWS_WITH_AS(NgramDrafter({.longest = 3, .shortest = 0}),
                       doctest::Contains("n-grams of 0 to 3 tokens"), kv::UserError);
  CHECK_THROWS_AS(NgramDrafter({.longest = 1, .shortest = 2}), kv::UserError);
  CHECK_NOTHROW(NgramDrafter({.longest = 1, .shortest = 1}));
}

TEST_CASE("random texts of few letters: the place is the one that a slow search finds") {
  kvtest::Random random(1);
  for (int text = 0; text < 20'000; ++text) {
    Tokens tokens(random.below(24));
    const int letters = 1 + random.below(4);
    for (int32_t& token : tokens) token = random.below(letters);
    const int shortest = 1 + random.below(3);
    const lesson09::NgramOptions options{.longest = shortest + random.below(4),
                                         .shortest = shortest};
    const size_t found = find_continuation(tokens, options);
    if (found != slowly(tokens, options)) {
      FAIL_CHECK("text " << text << ": found " << found << ", expected "
                         << slowly(tokens, options));
    }
  }
}
