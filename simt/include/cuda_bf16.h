#pragma once

// CUDA's bf16: the upper half of a float, rounded to nearest even.

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  uint16_t bits;

  __nv_bfloat16() = default;
  __nv_bfloat16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    bits = std::isnan(x) ? uint16_t{0x7FFF}
                         : static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {x}; }
inline __nv_bfloat16 __float2bfloat16(float x) { return {x}; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float __low2float(__nv_bfloat162 x) { return x.x; }
inline float __high2float(__nv_bfloat162 x) { return x.y; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }
