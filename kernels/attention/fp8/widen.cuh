#pragma once

// FP8 (e4m3) codes as bf16 numbers, exact for every code and every scale 2^e with e from -117 to 7.
//
// A code's bits in the place of a bf16's exponent and mantissa are 2^-120 of its number, subnormal
// codes included. One product with 2^(120 + e) gives the number, so the scale costs nothing. The
// NaN codes read as 480; they are never written.

#include <cstdint>

#ifdef KV_SIMT
#include <bit>
#endif

namespace kv::attention {

#ifdef KV_SIMT

/// What `permute` and `multiply` do, for a GPU that the CPU plays.
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t from = uint64_t{b} << 32 | a;
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = selectors >> 4 * i & 0xF;
    const auto byte = static_cast<uint8_t>(from >> 8 * (selector & 7));
    const uint32_t sign = (byte & 0x80) != 0 ? 0xFF : 0;
    bytes |= (selector < 8 ? byte : sign) << 8 * i;
  }
  return bytes;
}
template <uint32_t kSelectors>
inline uint32_t permute(uint32_t a, uint32_t b) {
  return permute_bytes(a, b, kSelectors);
}
inline uint32_t multiply(uint32_t a, uint32_t b) {  // exact, so nothing is rounded
  const auto product = [](uint32_t x, uint32_t y) {
    return std::bit_cast<uint32_t>(std::bit_cast<float>(x) * std::bit_cast<float>(y)) >> 16;
  };
  return product(a << 16, b << 16) | product(a & 0xFFFF0000u, b & 0xFFFF0000u) << 16;
}

#else

/// A permutation of bytes that may fill a byte with the sign of another one (selectors from 8 on).
template <uint32_t kSelectors>
__device__ inline uint32_t permute(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(kSelectors));
  return bytes;
}
/// Two products of bf16.
__device__ inline uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t products;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(products) : "r"(a), "r"(b));
#else  // plus -0, which changes no product
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(products) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
  return products;
}

#endif

/// 2^(120 + e) twice, from the byte e + 127 of a scale: what the codes of one key are widened by.
__device__ inline uint32_t widening_of(uint32_t scale) { return scale * 0x00800080u + 0x3C003C00u; }
/// The same of two keys, from the lower two bytes of a word: the first one's in the lower half.
__device__ inline uint32_t widening_of_two(uint32_t scales) {
  return permute<0x4140>(scales, 0) * 0x80u + 0x3C003C00u;
}

/// Two codes, each in the low byte of a half that is filled with its sign.
__device__ inline uint32_t widen(uint32_t codes, uint32_t widening) {
  return multiply(codes << 4 & 0x87F087F0u, widening);
}

/// Codes 2 kPair and 2 kPair + 1 of a word, which are of one key.
template <int kPair>
__device__ inline uint32_t widen_pair(uint32_t word, uint32_t widening) {
  return widen(permute < kPair == 0 ? 0x9180 : 0xB3A2 > (word, 0), widening);
}

/// Code kIndex of each of two words, which are of two keys: a's in the lower half.
template <int kIndex>
__device__ inline uint32_t widen_two_keys(uint32_t a, uint32_t b, uint32_t widening) {
  return widen(permute<0xC480 + 0x1111 * kIndex>(a, b), widening);
}

}  // namespace kv::attention
