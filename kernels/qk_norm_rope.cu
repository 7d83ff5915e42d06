// QK-norm and RoPE: a warp for each head of each row, or for a few heads if there are many rows.
// Floor: 6 bytes per element (fp32 in, bf16 out).
//
// For one row (32 heads of 128) time is latency. So angles and weights, which do not depend on the
// product before it, are computed and loaded while that product ends.

#include "kernels/qk_norm_rope.h"

#include <string>

#include "common/error.h"
#include "kernels/launch.cuh"
#include "kernels/qk_norm_rope.cuh"

namespace kv {
namespace {

constexpr int kWarpsPerCta = 4;
constexpr int kMaxHeadDim = 256;

// Grid: a warp for each row and kHeads of its heads: Q heads first, then K, then V.
template <int kPairs, int kHeads>
__global__ void __launch_bounds__(32 * kWarpsPerCta, kHeadCtasPerSm<kHeads>)
    qk_norm_rope_kernel(QkNormRopeArgs args) {
  let_successors_start();
  const int heads_per_row = args.num_heads + 2 * args.num_kv_heads;
  const int warps_per_row = (heads_per_row + kHeads - 1) / kHeads;
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / 32;
  const int64_t row = index / warps_per_row;
  if (row >= args.num_rows) {
    wait_for_predecessors();
    return;
  }
  const auto place_of = [&](int head) -> __nv_bfloat16* {
    const int first_k = args.num_heads, first_v = first_k + args.num_kv_heads;
    if (head < first_k) {
      return static_cast<__nv_bfloat16*>(args.q) + (row * first_k + head) * args.head_dim;
    }
    const int64_t slot = args.kv.slot_of(row);
    if (slot < 0) return nullptr;
    const int kv_head = head - (head < first_v ? first_k : first_v);
    return static_cast<__nv_bfloat16*>(head < first_v ? args.kv.k : args.kv.v) +
           (slot * args.num_kv_heads + kv_head) * args.head_dim;
  };
  const int first_head = static_cast<int>(index % warps_per_row) * kHeads;
  make_heads<kPairs, kHeads>(args, row, first_head, place_of);
}

}  // namespace

void qk_norm_rope_cuda(const QkNormRopeArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  if (args.head_dim % 2 != 0 || args.head_dim > kMaxHeadDim) {
    throw UserError("RoPE on CUDA: head_dim is " + std::to_string(args.head_dim) +
                    ", it must be even and at most " + std::to_string(kMaxHeadDim) +
                    "; use --device cpu");
  }
  const auto launch = [&]<int kPairs>() {
    with_heads_of_warp(args.num_rows, [&]<int kHeads>() {
      const int heads_per_row = args.num_heads + 2 * args.num_kv_heads;
      const int64_t num_warps = int64_t{args.num_rows} * ((heads_per_row + kHeads - 1) / kHeads);
      const auto num_ctas = static_cast<unsigned>((num_warps + kWarpsPerCta - 1) / kWarpsPerCta);
      launch_dependent(qk_norm_rope_kernel<kPairs, kHeads>,
                       {dim3(num_ctas), dim3(32 * kWarpsPerCta), 0, "launching qk_norm_rope"},
                       stream, args);
    });
  };
  if (args.head_dim <= 64) return launch.template operator()<1>();
  if (args.head_dim <= 128) return launch.template operator()<2>();
  launch.template operator()<4>();
}

}  // namespace kv
