// QK-norm and RoPE: a warp takes one head of one row and keeps it in registers, so that an element
// is read once and written once. Floor: 6 bytes per element (fp32 in, bf16 out).
//
// For one row (32 heads of 128) time is latency: what does not depend on the product before it
// (angles, weights) is computed while that product ends.

#include "kernels/qk_norm_rope.h"

#include <cuda_bf16.h>

#include <string>

#include "common/base/error.h"
#include "kernels/launch.cuh"
#include "kernels/warp.cuh"

namespace kv {
namespace {

constexpr int kWarpsPerCta = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kMaxPairs = kMaxHeadDim / 2 / 32;  // pairs of elements per lane

// Grid: one warp per (row, head), the row's Q heads first, then K, then V. Lane l holds the pairs
// (i, i + head_dim / 2) with i = l, l + 32, ...: RoPE turns a pair, and never leaves the lane.
__global__ void qk_norm_rope_kernel(QkNormRopeArgs args) {
  let_successors_start();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / 32;
  const int heads_per_row = args.num_heads + 2 * args.num_kv_heads;
  if (index >= int64_t{args.num_rows} * heads_per_row) {
    wait_for_predecessors();
    return;
  }
  const int64_t row = index / heads_per_row;
  const int head = static_cast<int>(index % heads_per_row);
  const int half = args.head_dim / 2;
  const bool is_q = head < args.num_heads;
  const bool is_v = head >= args.num_heads + args.num_kv_heads;
  const float* weight = is_v ? nullptr : is_q ? args.q_norm_weight : args.k_norm_weight;

  float cosine[kMaxPairs], sine[kMaxPairs], weight_a[kMaxPairs], weight_b[kMaxPairs];
  const auto position = static_cast<float>(args.positions[row]);
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = lane + 32 * j;
    cosine[j] = 1.0f;
    sine[j] = 0.0f;
    weight_a[j] = weight_b[j] = 1.0f;
    if (i >= half) continue;
    if (!is_v) sincosf(position * args.inv_freq[i], &sine[j], &cosine[j]);
    if (weight != nullptr) {
      weight_a[j] = weight[i];
      weight_b[j] = weight[i + half];
    }
  }

  wait_for_predecessors();
  const float* in = args.qkv + index * args.head_dim;
  float a[kMaxPairs], b[kMaxPairs];
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = lane + 32 * j;
    a[j] = i < half ? in[i] : 0.0f;
    b[j] = i < half ? in[i + half] : 0.0f;
  }
  if (weight != nullptr) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) sum = fmaf(b[j], b[j], fmaf(a[j], a[j], sum));
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(args.head_dim) + args.norm_eps);
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
      a[j] = a[j] * scale * weight_a[j];
      b[j] = b[j] * scale * weight_b[j];
    }
  }

  const int kv_head = head - args.num_heads - (is_v ? args.num_kv_heads : 0);
  const int64_t out_head = is_q ? row * args.num_heads + head : row * args.num_kv_heads + kv_head;
  void* all_heads = is_q ? args.q : is_v ? args.v : args.k;
  __nv_bfloat16* out = static_cast<__nv_bfloat16*>(all_heads) + out_head * args.head_dim;
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    const float turned_a = fmaf(-b[j], sine[j], a[j] * cosine[j]);
    const float turned_b = fmaf(a[j], sine[j], b[j] * cosine[j]);
    out[i] = __float2bfloat16_rn(is_v ? a[j] : turned_a);
    out[i + half] = __float2bfloat16_rn(is_v ? b[j] : turned_b);
  }
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
