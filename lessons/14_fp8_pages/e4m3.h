#pragma once

// FP8 in the format e4m3: a sign, 4 bits of exponent, 3 of mantissa. 254 numbers from -448 to 448;
// codes 0x7F and 0xFF are NaN and are never written. Both twins share these functions.
// Source: Micikevicius et al., FP8 Formats for Deep Learning (2022), table 1.

#include <cstdint>
#include <cstring>

#include "common/host_device.h"

namespace lesson14 {

/// A head's scale is 2^exponent. In this range every number that a code stands for, times its
/// scale, is exact in bf16, and a kernel can make it with one product of bf16.
inline constexpr int kMinExponent = -117;
inline constexpr int kMaxExponent = 7;

KV_HOST_DEVICE static inline uint32_t bits_of(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
KV_HOST_DEVICE static inline float float_of(uint32_t bits) {
  float x = 0;
  memcpy(&x, &bits, sizeof x);
  return x;
}
KV_HOST_DEVICE static inline float power_of_two(int exponent) {  // -126 to 127
  return float_of(static_cast<uint32_t>(exponent + 127) << 23);
}

/// The exponent of the scale of a head whose largest magnitude is `largest`: ceil(log2(largest /
/// 448)), clamped to the range above. A head of zeros has 0.
KV_HOST_DEVICE static inline int scale_exponent(float largest) {
  if (largest == 0.0f) return 0;
  const uint32_t bits = bits_of(largest);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const bool over = (bits & 0x7FFFFFu) > 0x600000u;  // 448 is 1.75 * 2^8
  const int wanted = exponent - 8 + (over ? 1 : 0);
  return wanted < kMinExponent ? kMinExponent : wanted > kMaxExponent ? kMaxExponent : wanted;
}

/// The code nearest to x / 2^exponent; of two, the even one. Larger values, and NaN, become 448.
KV_HOST_DEVICE static inline uint8_t encode(float x, int exponent) {
  const uint32_t bits = bits_of(x);
  const uint32_t sign = bits >> 24 & 0x80u;
  const float scaled = float_of(bits & 0x7FFFFFFFu) * power_of_two(-exponent);
  if (!(scaled < 448.0f)) return static_cast<uint8_t>(sign | 0x7Eu);
  if (scaled < 0x1p-6f) {
    // Subnormal codes count steps of 2^-9, and so do the low mantissa bits of 2^14 + scaled.
    return static_cast<uint8_t>(sign | (bits_of(scaled + 0x1p14f) & 0xFu));
  }
  const uint32_t of_scaled = bits_of(scaled);
  const uint32_t rounded = of_scaled + 0x7FFFFu + (of_scaled >> 20 & 1u);  // 20 bits go
  return static_cast<uint8_t>(sign | ((rounded >> 20) - ((127u - 7u) << 3)));
}

/// The number of a code, times 2^exponent. A code's bits in the place of a float's exponent and
/// mantissa are 2^-120 of its number, subnormal codes included.
KV_HOST_DEVICE static inline float decode(uint8_t code, int exponent) {
  const float tiny = float_of((code & 0x80u) << 24 | (code & 0x7Fu) << 20);
  return tiny * power_of_two(120 + exponent);
}

/// A scale's byte: 2^(byte - 127), as in OCP's E8M0.
KV_HOST_DEVICE static inline uint8_t byte_of(int exponent) {
  return static_cast<uint8_t>(exponent + 127);
}
KV_HOST_DEVICE static inline int exponent_of(uint8_t byte) { return byte - 127; }

}  // namespace lesson14
