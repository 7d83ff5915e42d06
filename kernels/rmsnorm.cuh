#pragma once

// RMSNorm of one row by one warp: the device code that rmsnorm.cu and the fused prologue of the
// matrix product share, so that both give the same bits.
//
// The order of the sum depends on k alone, never on the size of the CTA: lane l adds the squares of
// elements 128 i + 4 l + c, i ascending, into its partial sum c of four; the four are added as
// (0 + 1) + (2 + 3), and the lanes' sums in a butterfly over 16, 8, 4, 2, 1. Any warp may repeat
// it, so a CTA needs no barrier: each of its warps normalises what it uses.

#include <cstdint>

namespace kv {

/// The sum over the warp, in every lane with the same bits: the butterfly adds the same two values
/// in both partners, and a + b == b + a.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
  return x;
}

/// rsqrt(mean(row^2) + eps) of an fp32 row [k], in every lane. All 32 lanes must call it.
__device__ inline float warp_rms_scale(const float* row, int k, float eps) {
  const int lane = static_cast<int>(threadIdx.x & 31u);
  float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  if (k % 4 == 0 && reinterpret_cast<uintptr_t>(row) % 16 == 0) {
#pragma unroll 8
    for (int i = 4 * lane; i < k; i += 128) {
      const float4 x = *reinterpret_cast<const float4*>(row + i);
      s0 = fmaf(x.x, x.x, s0);
      s1 = fmaf(x.y, x.y, s1);
      s2 = fmaf(x.z, x.z, s2);
      s3 = fmaf(x.w, x.w, s3);
    }
  } else {  // the same sums, element by element
    for (int i = 4 * lane; i < k; i += 128) {
      s0 = fmaf(row[i], row[i], s0);
      if (i + 1 < k) s1 = fmaf(row[i + 1], row[i + 1], s1);
      if (i + 2 < k) s2 = fmaf(row[i + 2], row[i + 2], s2);
      if (i + 3 < k) s3 = fmaf(row[i + 3], row[i + 3], s3);
    }
  }
  const float sum = warp_sum((s0 + s1) + (s2 + s3));
  return rsqrtf(sum / static_cast<float>(k) + eps);
}

/// One normalised element, still in fp32. The caller rounds it to bf16 (to nearest even).
__device__ inline float rms_normed(float x, float scale, float weight) {
  return x * scale * weight;
}

}  // namespace kv
