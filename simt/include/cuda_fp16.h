#pragma once

// CUDA's half precision, as far as weights are read from it.

#include <cuda_runtime.h>

struct __half {
  uint16_t bits;
};
inline float __half2float(__half x) {
  const int exponent = x.bits >> 10 & 31;
  const int fraction = x.bits & 1023;
  const float sign = x.bits >> 15 != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}
