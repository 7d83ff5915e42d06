#pragma once

// The device side of RMSNorm, shared by a separate kernel (many rows) and the prologue fused into
// matrix products (few rows). Both add in the same order, so the bits are the same.
//
// The order, which depends on k alone: the row is cut into chunks of 128, a chunk into 4 rows of
// 32, those into 4 pieces of 8.  A quad of lanes shares a chunk; lane t takes piece t of each row.
//   lane    for each of the 4 rows of 32 a chain of 8 fmaf from zero; then (r0 + r1) + (r2 + r3)
//   chunk   (t0 + t1) + (t2 + t3) over the quad
//   row     the chunks added in ascending order, from zero
// Columns from k on count as zero.

#include <cuda_bf16.h>

namespace kv {

inline constexpr int kNormChunk = 128;

/// This lane's part of a chunk, then the quad's: every lane of the quad gets the same sum.
/// x[r][i] is the chunk's element 32 r + 8 t + i, with t = lane % 4.
__device__ inline float chunk_square_sum(const float (&x)[4][8]) {
  float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int r = 0; r < 4; ++r) part[r] = fmaf(x[r][i], x[r][i], part[r]);
  }
  float sum = (part[0] + part[1]) + (part[2] + part[3]);
  // Addition commutes, so all four lanes see the same bits.
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  return sum;
}

/// The factor of a row, 1 / sqrt(mean square + eps). `inverse_k` is 1.0f / k, which is computed
/// before the input arrives.
__device__ inline float norm_scale(float square_sum, float inverse_k, float eps) {
  return rsqrtf(square_sum * inverse_k + eps);
}

__device__ inline __nv_bfloat16 normalised(float x, float scale, float weight) {
  return __float2bfloat16_rn(x * scale * weight);
}

/// Eight neighbours of a row whose k is a multiple of 8; zeros if !valid.
__device__ inline void load_8(const float* from, bool valid, float (&v)[8]) {
  const float4 lo = valid ? reinterpret_cast<const float4*>(from)[0] : float4{0, 0, 0, 0};
  const float4 hi = valid ? reinterpret_cast<const float4*>(from)[1] : float4{0, 0, 0, 0};
  v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
  v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
}

/// Adds the sums of 8 chunks to total, in order; each quad of a warp has one of them.
__device__ inline float add_chunks(float total, float sum) {
#pragma unroll
  for (int chunk = 0; chunk < 8; ++chunk) total += __shfl_sync(0xFFFFFFFFu, sum, 4 * chunk);
  return total;
}

/// The scale of a whole row, by one warp, in every lane. In round i lane / 4 has chunk 8 i + lane /
/// 4.
__device__ inline float row_norm_scale(const float* x, int k, float eps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float total = 0.0f;
  for (int base = 0; base < k; base += 8 * kNormChunk) {
    const int first = base + (lane / 4) * kNormChunk + (lane % 4) * 8;
    float v[4][8];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int col = first + 32 * r;
      if (k % 8 == 0) {
        load_8(x + col, col < k, v[r]);
        continue;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) v[r][i] = col + i < k ? x[col + i] : 0.0f;
    }
    total = add_chunks(total, chunk_square_sum(v));
  }
  return norm_scale(total, 1.0f / static_cast<float>(k), eps);
}

}  // namespace kv
