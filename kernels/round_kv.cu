// The CUDA twin of round_kv: a warp for each head.

#include <cuda_bf16.h>

#include "kernels/launch.cuh"
#include "kernels/round_kv.h"
#include "kernels/warp.cuh"

namespace kv {
namespace {

/// Grid: (num_rows, num_kv_heads, 2): z = 0 rounds K, z = 1 rounds V. A CTA is one warp.
__global__ void round_kv_kernel(RoundKvArgs args) {
  let_successors_start();
  wait_for_predecessors();  // until then the rows may be incomplete
  const int64_t slot = args.kv.slot_of(blockIdx.x);
  if (slot < 0) return;
  auto* const x = static_cast<__nv_bfloat16*>(blockIdx.z == 0 ? args.kv.k : args.kv.v) +
                  (slot * args.num_kv_heads + blockIdx.y) * args.head_dim;
  float largest = 0.0f;
  for (int d = static_cast<int>(threadIdx.x); d < args.head_dim; d += 32) {
    largest = fmaxf(largest, fabsf(__bfloat162float(x[d])));
  }
  const float scale = e4m3_scale(warp_max(largest));
  for (int d = static_cast<int>(threadIdx.x); d < args.head_dim; d += 32) {
    x[d] = __float2bfloat16_rn(round_to_e4m3(__bfloat162float(x[d]), scale));  // exact
  }
}

}  // namespace

void round_kv_cuda(const RoundKvArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(args.num_kv_heads),
                  2);
  launch_dependent(round_kv_kernel, {grid, dim3(32), 0, "launching round_kv"}, stream, args);
}

}  // namespace kv
