#pragma once

// The choices that are left after guesses are judged: four sequences that can be checked by eye,
// and many by chance. For any device.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lessons/09_lookahead/reject_guesses.h"
#include "tests/support/readable.h"

namespace lesson09_test {

using Tokens = std::vector<int32_t>;

/// Returns the choices that are left. `choose` puts the choices onto the stream's device, last of
/// all, with one more token after them, and returns their address.
template <class Choose>
Tokens left_after(const kv::Stream& stream, const Tokens& guesses, Choose choose) {
  const auto on_device = kv::to_device<int32_t>(guesses, stream);
  int32_t* const chosen = choose();
  lesson09::reject_guesses({.guesses = on_device.as<const int32_t>(),
                            .num_rows = static_cast<int>(guesses.size()),
                            .chosen = chosen},
                           stream);
  Tokens left(guesses.size() + 1);
  kv::copy_to_host(left.data(), chosen, left.size() * sizeof(int32_t), stream);
  return left;
}

inline Tokens left_on(kv::Device device, const Tokens& guesses, Tokens chosen) {
  const kv::Stream stream(device);
  constexpr int32_t kNotARow = 77;
  chosen.push_back(kNotARow);
  const auto on_device = kv::to_device<int32_t>(chosen, stream);
  Tokens left = left_after(stream, guesses, [&] { return on_device.as<int32_t>(); });
  CHECK(left.back() == kNotARow);  // nothing is written after the last row
  left.pop_back();
  return left;
}

/// Of A's three guesses two are right. B has none. C's first guess is wrong, so its others are
/// rejected, right or not. D's first guess, token 0, is right, and the other is wrong.
struct FourSequences {
  Tokens guesses{-1, 5, 6, 7, /* B */ -1, /* C */ -1, 3, 4, 5, /* D */ -1, 0, 8};
  Tokens chosen{5, 6, 9, 7, /* B */ 7, /* C */ 2, 4, 5, 6, /* D */ 0, 9, 1};
  Tokens left{5, 6, 9, -1, /* B */ 7, /* C */ 2, -1, -1, -1, /* D */ 0, 9, -1};
};

inline void check_four_sequences(kv::Device device) {
  const FourSequences four;
  INFO("rows 0 to 3 are A's, row 4 is B's, rows 5 to 8 are C's, rows 9 to 11 are D's");
  CHECK(left_on(device, four.guesses, four.chosen) == four.left);
}

inline void check_few_rows(kv::Device device) {
  CHECK(left_on(device, {}, {}) == Tokens{});
  CHECK(left_on(device, {-1}, {4}) == Tokens{4});
  CHECK(left_on(device, {-1, -1}, {4, 4}) == Tokens{4, 4});
  CHECK(left_on(device, {-1, 4}, {4, 9}) == Tokens{4, 9});
  CHECK(left_on(device, {-1, 4}, {3, 9}) == Tokens{3, -1});
}

/// Sequences with up to `longest` guesses, of few different tokens. How many are right from the
/// first one on is drawn first, and the choices follow from it: no guess is looked at twice.
struct JudgedCase {
  Tokens guesses, chosen, left;

  JudgedCase(int num_seqs, int longest, const char* right, std::mt19937& rng) {
    const auto below = [&](int n) {
      return static_cast<int32_t>(rng() % static_cast<unsigned>(n));
    };
    for (int seq = 0; seq < num_seqs; ++seq) {
      const int num_guesses = below(longest + 1);
      const int num_right = right[0] == 'a'   ? num_guesses
                            : right[0] == 'n' ? 0
                                              : below(num_guesses + 1);
      guesses.push_back(-1);
      for (int i = 0; i < num_guesses; ++i) {
        const int32_t guess = below(3);
        const bool equal = i < num_right || (i > num_right && below(2) == 0);
        guesses.push_back(guess);
        chosen.push_back(equal ? guess : guess + 1);
        left.push_back(i <= num_right ? chosen.back() : -1);
      }
      chosen.push_back(below(3));  // from the last row
      left.push_back(num_right == num_guesses ? chosen.back() : -1);
    }
  }
};

inline void check_judged(kv::Device device, const std::vector<int>& nums_seqs,
                         const std::vector<int>& longest) {
  std::mt19937 rng(1);
  for (const int num_seqs : nums_seqs) {
    for (const int num_guesses : longest) {
      for (const char* right : {"all", "none", "some"}) {
        CAPTURE(num_seqs);
        CAPTURE(num_guesses);
        CAPTURE(std::string(right));
        const JudgedCase c(num_seqs, num_guesses, right, rng);
        CHECK(left_on(device, c.guesses, c.chosen) == c.left);
      }
    }
  }
}

}  // namespace lesson09_test
