// RMSNorm of many rows. Few rows are normalised inside the product that uses them. Both use
// rmsnorm.cuh, so the bits are the same.
//
// Floor: 6 bytes per element (fp32 in, bf16 out). A warp reads its row twice, the second time from
// the L1 cache; up to 1,024 elements stay in its registers.

#include "kernels/rmsnorm.h"

#include "kernels/launch.cuh"
#include "kernels/rmsnorm.cuh"

namespace kv {
namespace {

constexpr int kWarpsPerCta = 4;

__device__ inline void store_normalised(const float (&x)[8], const float (&w)[8], float scale,
                                        __nv_bfloat16* out) {
  __align__(16) __nv_bfloat16 out8[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) out8[i] = normalised(x[i], scale, w[i]);
  *reinterpret_cast<uint4*>(out) = *reinterpret_cast<const uint4*>(out8);
}

// Grid: one warp per row, of up to 1,024 elements, a multiple of 8. Lane l has piece l % 4 of the
// rows of 32 of chunk l / 4. The weights are loaded before the wait for the input.
__global__ void rmsnorm_short_kernel(const float* x, const float* weight, int num_rows, int k,
                                     float eps, __nv_bfloat16* out) {
  let_successors_start();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = lane / 4 * kNormChunk + lane % 4 * 8;
  float v[4][8], w[4][8];
#pragma unroll
  for (int r = 0; r < 4; ++r) load_8(weight + first + 32 * r, first + 32 * r < k, w[r]);
  wait_for_predecessors();
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / 32;
  if (row >= num_rows) return;
#pragma unroll
  for (int r = 0; r < 4; ++r) load_8(x + row * k + first + 32 * r, first + 32 * r < k, v[r]);
  const float scale =
      norm_scale(add_chunks(0.0f, chunk_square_sum(v)), 1.0f / static_cast<float>(k), eps);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (first + 32 * r < k) store_normalised(v[r], w[r], scale, out + row * k + first + 32 * r);
  }
}

// Grid: one warp per row. Lane l writes elements 8 l .. 8 l + 7, 256 further on the next 8, ...;
// one at a time if rows are not aligned.
__global__ void rmsnorm_kernel(const float* x, const float* weight, int num_rows, int k, float eps,
                               __nv_bfloat16* out) {
  let_successors_start();
  wait_for_predecessors();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / 32;
  if (row >= num_rows) return;
  const float* in = x + row * k;
  const float scale = row_norm_scale(in, k, eps);
  __nv_bfloat16* row_out = out + row * k;
  if (k % 8 != 0) {
    for (int i = lane; i < k; i += 32) row_out[i] = normalised(in[i], scale, weight[i]);
    return;
  }
#pragma unroll 4
  for (int i = lane * 8; i < k; i += 32 * 8) {
    float v[8];
    float w[8];
    load_8(in + i, true, v);
    load_8(weight + i, true, w);
    store_normalised(v, w, scale, row_out + i);
  }
}

}  // namespace

void rmsnorm_cuda(const RmsNormArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  const int num_ctas = (args.num_rows + kWarpsPerCta - 1) / kWarpsPerCta;
  const Launch launch{dim3(static_cast<unsigned>(num_ctas)), dim3(32 * kWarpsPerCta), 0,
                      "launching rmsnorm"};
  const bool is_short = args.k <= 8 * kNormChunk && args.k % 8 == 0;
  launch_dependent(is_short ? rmsnorm_short_kernel : rmsnorm_kernel, launch, stream, args.x,
                   args.weight, args.num_rows, args.k, args.eps,
                   static_cast<__nv_bfloat16*>(args.out));
}

}  // namespace kv
