// QK-norm and RoPE: a warp for each head of each row. Floor: 6 bytes per element (fp32 in, bf16
// out).
//
// For one row (32 heads of 128) time is latency: what does not depend on the product before it
// (angles, weights) is computed while that product ends.

#include "kernels/qk_norm_rope.h"

#include <string>

#include "common/base/error.h"
#include "kernels/launch.cuh"
#include "kernels/qk_norm_rope.cuh"

namespace kv {
namespace {

constexpr int kWarpsPerCta = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kMaxPairs = kMaxHeadDim / 2 / 32;  // pairs of elements per lane

// Grid: one warp per (row, head), the row's Q heads first, then K, then V.
__global__ void qk_norm_rope_kernel(QkNormRopeArgs args) {
  let_successors_start();
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / 32;
  const int heads_per_row = args.num_heads + 2 * args.num_kv_heads;
  if (index >= int64_t{args.num_rows} * heads_per_row) {
    wait_for_predecessors();
    return;
  }
  const int64_t row = index / heads_per_row;
  const int head = static_cast<int>(index % heads_per_row);
  HeadInWarp<kMaxPairs> mine(args, row, head);
  wait_for_predecessors();
  mine.compute(args.qkv + index * args.head_dim, args.norm_eps);

  const bool is_q = head < args.num_heads;
  const bool is_v = head >= args.num_heads + args.num_kv_heads;
  const int kv_head = head - args.num_heads - (is_v ? args.num_kv_heads : 0);
  const int64_t out_head = is_q ? row * args.num_heads + head : row * args.num_kv_heads + kv_head;
  void* all_heads = is_q ? args.q : is_v ? args.v : args.k;
  mine.store(static_cast<__nv_bfloat16*>(all_heads) + out_head * args.head_dim);
}

}  // namespace

void qk_norm_rope_cuda(const QkNormRopeArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  if (args.head_dim % 2 != 0 || args.head_dim > kMaxHeadDim) {
    throw UserError("RoPE on CUDA: head_dim is " + std::to_string(args.head_dim) +
                    ", it must be even and at most " + std::to_string(kMaxHeadDim) +
                    "; use --device cpu");
  }
  const int64_t num_warps = int64_t{args.num_rows} * (args.num_heads + 2 * args.num_kv_heads);
  const auto num_ctas = static_cast<unsigned>((num_warps + kWarpsPerCta - 1) / kWarpsPerCta);
  launch_dependent(qk_norm_rope_kernel,
                   {dim3(num_ctas), dim3(32 * kWarpsPerCta), 0, "launching qk_norm_rope"}, stream,
                   args);
}

}  // namespace kv
