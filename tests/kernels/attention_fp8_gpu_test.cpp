// Attention over FP8 pages: the bits of bf16 over the decoded numbers.

#include <doctest/doctest.h>

#include <random>

#include "fp8_pages.h"

using kernels_test::Codes;
using kernels_test::fp8_differences;

namespace {

constexpr Codes kAllCodes[] = {Codes::kOrdinary, Codes::kWild, Codes::kExtreme};

std::vector<int32_t> uneven(int n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> lens;
  for (int i = 0; i < n; ++i) lens.push_back(4 + static_cast<int32_t>(rng() % 3000));
  return lens;
}

}  // namespace

TEST_CASE("FP8 pages: every length around tiles and groups, alone and in a batch") {
  for (const Codes codes : kAllCodes) {
    for (const int len : {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 513, 1024, 4095}) {
      CAPTURE(len);
      CHECK(fp8_differences({.seq_lens = {len}, .codes = codes}, 2) == 0);
      CHECK(fp8_differences({.seq_lens = std::vector<int32_t>(150, len), .codes = codes}, 2) == 0);
    }
  }
}

TEST_CASE("FP8 pages: long sequences") {
  for (const int len : {32768, 33001, 131072}) {
    CAPTURE(len);
    CHECK(fp8_differences({.seq_lens = {len}, .codes = Codes::kWild}, 2) == 0);
  }
}

TEST_CASE("FP8 pages: uneven sequences, block sizes, heads and rows") {
  for (const Codes codes : kAllCodes) {
    for (const int block_size : {16, 32, 64, 256}) {
      for (const int heads : {8, 16, 32, 64}) {
        CAPTURE(block_size);
        CAPTURE(heads);
        CHECK(fp8_differences({uneven(40, 1), block_size, heads, 1, codes}, 2) == 0);
      }
    }
    CHECK(fp8_differences({uneven(40, 2), 16, 16, 4, codes}, 2) == 0);
  }
}

// 64 heads leave and merge much, which delays loads from shared memory by more than a copy takes: a
// slot given back before its loads were complete showed in one of 250 launches.
TEST_CASE("FP8 pages: many launches while much is merged") {
  for (const unsigned seed : {23u, 24u, 27u, 41u, 45u}) {
    CHECK(fp8_differences({uneven(40, seed), 32 << seed % 2, 64, 1, Codes::kOrdinary}, 150) == 0);
  }
}
