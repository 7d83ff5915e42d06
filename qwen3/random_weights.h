#pragma once

// Random weights that can be made in any order, on any number of threads, and come out the same.

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/dtype.h"

namespace kv {

// SplitMix64: the n-th number of a stream without the ones before it.
inline uint64_t random_bits(uint64_t seed, uint64_t n) {
  uint64_t x = seed + (n + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers: close to normal (|x| < 3.5 std), mean 0, std 0.02.
inline float random_weight(uint64_t bits) {
  const auto part = [&](int shift) { return static_cast<int>((bits >> shift) & 0xFFFFu); };
  const int sum = part(0) + part(16) + part(32) + part(48) - 2 * 0xFFFF;
  constexpr float kScale = 0.02f * 1.7320508f / 65536.0f;  // the sum: std 65536 / sqrt(3)
  return static_cast<float>(sum) * kScale;
}

// Round to nearest even; for |x| < 65504, which every weight here is.
inline Half to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, a multiple of 2^-24
    return {
        static_cast<uint16_t>(sign | static_cast<uint32_t>(std::lrint(std::fabs(x) * 0x1p24f)))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

}  // namespace kv
