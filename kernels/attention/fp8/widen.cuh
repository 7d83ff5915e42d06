#pragma once

// FP8 (e4m3) codes as bf16 numbers, exact for every code and every scale 2^e with e from -117 to 7.
//
// A code's bits in the place of a bf16's exponent and mantissa are 2^-120 of its number, subnormal
// codes included. One product with 2^(120 + e) gives the number, so the scale costs nothing. The
// NaN codes read as 480; they are never written.

#include <cstdint>

#include "kernels/tensor_core.cuh"

namespace kv::attention {

/// 2^(120 + e) twice, from a scale's byte e + 127: the factor that widens the codes of one key.
__device__ inline uint32_t widening_of(uint32_t scale) { return scale * 0x00800080u + 0x3C003C00u; }
/// The factors of two keys, from the lower two bytes of a word: the first key's in the lower half.
__device__ inline uint32_t widening_of_two(uint32_t scales) {
  return permute_bytes<0x4140>(scales, 0) * 0x80u + 0x3C003C00u;
}

/// Two codes, each in the low byte of a half that is filled with its sign.
__device__ inline uint32_t widen(uint32_t codes, uint32_t widening) {
  return multiply_pairs(codes << 4 & 0x87F087F0u, widening);
}

/// Codes 2 kPair and 2 kPair + 1 of a word, which are of one key.
template <int kPair>
__device__ inline uint32_t widen_pair(uint32_t word, uint32_t widening) {
  return widen(permute_bytes<(kPair == 0 ? 0x9180 : 0xB3A2)>(word, 0), widening);
}

/// Code kIndex of each half of a word, whose halves have two codes of a key each.
template <int kIndex>
__device__ inline uint32_t widen_both(uint32_t word, uint32_t widening) {
  return widen(permute_bytes<0xA280 + 0x1111 * kIndex>(word, 0), widening);
}

/// The eight codes of two words, which are of one key.
__device__ inline uint4 widen_eight(uint32_t a, uint32_t b, uint32_t widening) {
  return {widen_pair<0>(a, widening), widen_pair<1>(a, widening), widen_pair<0>(b, widening),
          widen_pair<1>(b, widening)};
}

/// Code kIndex of each of two words, which are of two keys: a's in the lower half.
template <int kIndex>
__device__ inline uint32_t widen_two_keys(uint32_t a, uint32_t b, uint32_t widening) {
  return widen(permute_bytes<0xC480 + 0x1111 * kIndex>(a, b), widening);
}

}  // namespace kv::attention
