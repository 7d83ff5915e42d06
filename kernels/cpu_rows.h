#pragma once

// Shared by the CPU twins: sums whose order is fixed, and loads of weights of any dtype.

#include <cmath>
#include <cstdint>

#include "common/dtype.h"

namespace kv {

/// Sum of x[k]^2, fp32: 16 partial sums, lane i adding k = i, i + 16, ... in ascending order, each
/// square rounded before it is added; then lane i + lane i + 8, then + 4, + 2, + 1. The order
/// depends on n alone.
inline float sum_of_squares(const float* x, int n) {
  float lanes[16] = {};
  int k = 0;
  for (; k + 16 <= n; k += 16) {
    for (int i = 0; i < 16; ++i) lanes[i] += x[k + i] * x[k + i];
  }
  for (int i = 0; k + i < n; ++i) lanes[i] += x[k + i] * x[k + i];
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// out = x * (1 / sqrt(mean(x^2) + eps)) * weight. `out` may be `x`.
inline void rmsnorm_row(const float* x, const float* weight, int n, float eps, float* out) {
  const float scale = 1.0f / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  for (int k = 0; k < n; ++k) out[k] = x[k] * scale * weight[k];
}

}  // namespace kv
