#pragma once

// Element types of weights, activations and KV, and the conversions between them.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kv {

enum class DType { kF32, kF16, kBF16 };

constexpr size_t size_of(DType t) { return t == DType::kF32 ? 4 : 2; }
constexpr const char* name_of(DType t) {
  return t == DType::kF32 ? "F32" : t == DType::kF16 ? "F16" : "BF16";
}

/// The upper half of a float: 1 sign, 8 exponent and 7 mantissa bits.
struct BFloat16 {
  uint16_t bits;
};
/// IEEE binary16.
struct Half {
  uint16_t bits;
};

constexpr float to_float(float x) { return x; }
constexpr float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

constexpr float to_float(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1Fu;
  const uint32_t mantissa = x.bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  // Zero or subnormal: mantissa * 2^-24, exact in a float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// Round to nearest, ties to even; NaN stays NaN. The same rounding as __float2bfloat16_rn.
constexpr BFloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace kv
