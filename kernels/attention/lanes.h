#pragma once

// Sixteen numbers side by side, in one wide register or in two: what attend.cpp computes with.

#include <cstring>
#include <utility>

#include "kernels/every_cpu.h"

namespace kv::attention {

inline constexpr int kLanes = 16;
using Lanes __attribute__((vector_size(kLanes * sizeof(float)))) = float;  // + and * lane by lane

/// The same lanes in two registers, for a CPU that has none for all: GCC would keep them in memory.
struct Halves {
  using Half __attribute__((vector_size(kLanes / 2 * sizeof(float)))) = float;
  Half low, high;
};
/// sum += a * b, where b may be one number for all lanes.
ALWAYS_INLINE void add_product(Lanes& sum, const Lanes& a, const Lanes& b) { sum += a * b; }
ALWAYS_INLINE void add_product(Lanes& sum, const Lanes& a, float b) { sum += b * a; }
ALWAYS_INLINE void add_product(Halves& sum, const Halves& a, const Halves& b) {
  sum.low += a.low * b.low, sum.high += a.high * b.high;
}
ALWAYS_INLINE void add_product(Halves& sum, const Halves& a, float b) {
  sum.low += b * a.low, sum.high += b * a.high;
}

ALWAYS_INLINE void load(Lanes& lanes, const float* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}
ALWAYS_INLINE void load(Halves& lanes, const float* from) {
  std::memcpy(&lanes.low, from, sizeof lanes.low);
  std::memcpy(&lanes.high, from + kLanes / 2, sizeof lanes.high);
}
ALWAYS_INLINE void store(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof lanes); }
ALWAYS_INLINE void store(float* to, const Halves& lanes) {
  std::memcpy(to, &lanes.low, sizeof lanes.low);
  std::memcpy(to + kLanes / 2, &lanes.high, sizeof lanes.high);
}

/// sum = the lower half of each 2 * kHalf lanes of a, then of b, plus the upper half.
template <int kHalf, int... kLane>
ALWAYS_INLINE void add_halves(Lanes& sum, const Lanes& a, const Lanes& b,
                              std::integer_sequence<int, kLane...>) {
  sum = __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
        __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
}
template <int kHalf, int... kLane>
ALWAYS_INLINE void add_halves(Halves::Half& sum, const Halves& x,
                              std::integer_sequence<int, kLane...>) {
  sum = __builtin_shufflevector(x.low, x.high, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
        __builtin_shufflevector(x.low, x.high,
                                (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
}
template <int kHalf, class All>
ALWAYS_INLINE void add_halves(Halves& sum, const Halves& a, const Halves& b, All) {
  constexpr std::make_integer_sequence<int, kLanes / 2> kOneHalf;
  const Halves first = a, second = b;  // the sum may stand where one of them did
  add_halves<kHalf>(sum.low, first, kOneHalf);
  add_halves<kHalf>(sum.high, second, kOneHalf);
}

/// Lane i of dots[0] becomes the sum of the lanes of dots[i], added by the fixed tree: 8 apart,
/// 4 apart, 2 apart, neighbours.
template <class L>
ALWAYS_INLINE void add_lanes(L (&dots)[kLanes]) {
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  for (int i = 0; i < 8; ++i) add_halves<8>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  for (int i = 0; i < 4; ++i) add_halves<4>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  for (int i = 0; i < 2; ++i) add_halves<2>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  add_halves<1>(dots[0], dots[0], dots[1], kAll);
}

}  // namespace kv::attention
