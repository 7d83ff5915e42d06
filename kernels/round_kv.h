#pragma once

// Rounds K and V through FP8 (e4m3), in place: a head of a row becomes what a cache of one byte for
// each element gives back. Attention over these rows has the bits that attention over FP8 pages
// must have. It is written with values, not with codes, so that the two can be wrong only apart.

#include <cmath>

#include "common/device.h"
#include "common/host_device.h"
#include "kernels/kv_slots.h"

namespace kv {

/// Largest magnitude of e4m3, which has 3 mantissa bits and a smallest step of 2^-9.
inline constexpr float kMaxE4m3 = 448.0f;

/// The power of two that a head is divided by: the smallest, from 2^-117 to 2^7, with which its
/// largest magnitude is at most kMaxE4m3. A head of zeros has 1.
KV_HOST_DEVICE inline float e4m3_scale(float largest) {
  if (largest == 0.0f) return 1.0f;
  if (!(largest < std::ldexp(kMaxE4m3, 7))) return std::ldexp(1.0f, 7);
  int exponent = 0;
  const float fraction = std::frexp(largest, &exponent);  // in [0.5, 1); 448 = 0.875 * 2^9
  const int scale = exponent - 9 + (fraction > 0.875f ? 1 : 0);
  return std::ldexp(1.0f, scale < -117 ? -117 : scale);
}

/// The nearest multiple of `scale` and an e4m3 number; of two, the one with an even mantissa.
/// Larger values, and NaN, become the largest number.
KV_HOST_DEVICE inline float round_to_e4m3(float x, float scale) {
  const float scaled = std::fabs(x) / scale;  // exact, or far below the smallest step
  float rounded = kMaxE4m3;
  if (scaled < kMaxE4m3) {
    int exponent = 0;
    std::frexp(scaled, &exponent);
    const float step = std::ldexp(1.0f, exponent - 4 > -9 ? exponent - 4 : -9);
    rounded = std::rint(scaled / step) * step;
  }
  return std::copysign(rounded * scale, x);
}

struct RoundKvArgs {
  KvSlots kv = {};  // where the rows are
  int num_rows = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
};

void round_kv_cpu(const RoundKvArgs& args);
void round_kv_cuda(const RoundKvArgs& args, const Stream& stream);
inline void round_kv(const RoundKvArgs& args, const Stream& stream) {
  KV_DISPATCH(round_kv, args, stream);
}

}  // namespace kv
