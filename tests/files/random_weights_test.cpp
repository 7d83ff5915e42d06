#include "qwen3/random_weights.h"

#include <doctest/doctest.h>

#include "common/dtype.h"

using namespace kv;

TEST_CASE("random weights: every finite half survives the way to float and back") {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if ((bits & 0x7C00u) == 0x7C00u) continue;  // infinity and NaN
    const Half half{static_cast<uint16_t>(bits)};
    if (to_half(to_float(half)).bits != bits) FAIL("half ", bits);
  }
}

TEST_CASE("random weights: floats between two halves go to the nearest one, ties to even") {
  // Up to the largest half but one, so that a neighbour above exists.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = to_float(Half{static_cast<uint16_t>(bits)});
    const float high = to_float(Half{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;  // exact: halves have 13 bits less
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    if (to_half(middle).bits != even) FAIL("tie above half ", bits);
    if (to_half(std::nextafterf(middle, low)).bits != bits) FAIL("below the tie above ", bits);
    if (to_half(std::nextafterf(middle, high)).bits != bits + 1) FAIL("above the tie ", bits);
    if (to_half(-middle).bits != (even | 0x8000u)) FAIL("negative tie ", bits);
  }
}
