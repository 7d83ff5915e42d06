// The plain CUDA twin of causal_attention: a warp for each query, the keys in ascending order. Read
// it beside causal_attention.cpp: the same pieces, in the same order.
//
// The 32 lanes of a warp share the elements of a head. Lane i has elements i, i + 32, i + 64, ...
// of q, k, v, acc and out. So neighbouring lanes always read neighbouring addresses. All lanes have
// the same m and l.

#include "causal_attention.h"

#include <cuda_bf16.h>

#include "kernels/attention/head_dims.cuh"
#include "kernels/launch.cuh"
#include "kernels/warp.cuh"

namespace lesson01 {
namespace {

using bf16 = __nv_bfloat16;
using kv::attention::first_key;

template <int kHeadDim>
constexpr int kPerLane = (kHeadDim + 31) / 32;  // elements of a head in a lane

/// The online softmax of one query over the keys so far. m and l are the same in every lane.
template <int kHeadDim>
struct LaneSoftmax {
  float m;                        // largest score so far
  float l;                        // sum of exp(score - m)
  float acc[kPerLane<kHeadDim>];  // sum of exp(score - m) * v, this lane's elements
};

/// This lane's element i of a row; zero past the end of the row (head_dim 80).
template <int kHeadDim>
__device__ float element(const bf16* of_row, int i) {
  const int d = static_cast<int>(threadIdx.x) + 32 * i;
  return d < kHeadDim ? __bfloat162float(of_row[d]) : 0.0f;
}

/// q . k * scale, the same bits in every lane. `q` has this lane's elements.
template <int kHeadDim>
__device__ float score_of(const float* q, const bf16* k, float scale) {
  float dot = 0.0f;  // this lane's part of the product
  for (int i = 0; i < kPerLane<kHeadDim>; ++i) dot += q[i] * element<kHeadDim>(k, i);
  return kv::warp_sum(dot) * scale;
}

/// Adds one more key.
template <int kHeadDim>
__device__ void add_key(LaneSoftmax<kHeadDim>& sum, float score, const bf16* v) {
  const float m = fmaxf(sum.m, score);
  const float shrink = expf(sum.m - m);  // factor of the sums made with the old m; 0 at first
  const float p = expf(score - m);
  sum.m = m;
  sum.l = sum.l * shrink + p;
  for (int i = 0; i < kPerLane<kHeadDim>; ++i) {
    sum.acc[i] = sum.acc[i] * shrink + p * element<kHeadDim>(v, i);
  }
}

/// Grid: (rows of the longest sequence, num_heads, num_seqs). A CTA is one warp: one query.
template <int kHeadDim>
__global__ void causal_attention_kernel(CausalAttentionArgs args) {
  const int lane = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z);
  const int row = args.first_row[seq] + static_cast<int>(blockIdx.x);
  if (row >= args.first_row[seq + 1]) return;  // a sequence shorter than the longest

  const int group = args.num_heads / args.num_kv_heads;  // GQA: query heads that share K and V
  const int kv_head = head / group;
  const float scale = 1.0f / sqrtf(static_cast<float>(kHeadDim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * kHeadDim;
  const bf16* q_row = static_cast<const bf16*>(args.q) + at;  // [kHeadDim]
  bf16* out_row = static_cast<bf16*>(args.out) + at;          // [kHeadDim]
  float q[kPerLane<kHeadDim>];
  for (int i = 0; i < kPerLane<kHeadDim>; ++i) q[i] = element<kHeadDim>(q_row, i);

  LaneSoftmax<kHeadDim> sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  const int begin = args.first_row[seq];
  for (int key = begin + first_key(row - begin, args.window); key <= row; ++key) {
    const int64_t kv_at = (int64_t{key} * args.num_kv_heads + kv_head) * kHeadDim;
    const bf16* k = static_cast<const bf16*>(args.k) + kv_at;  // [kHeadDim]
    const bf16* v = static_cast<const bf16*>(args.v) + kv_at;  // [kHeadDim]
    add_key<kHeadDim>(sum, score_of<kHeadDim>(q, k, scale), v);
  }
  for (int i = 0; i < kPerLane<kHeadDim>; ++i) {
    const int d = lane + 32 * i;
    if (d < kHeadDim) out_row[d] = __float2bfloat16(sum.acc[i] / sum.l);
  }
}

}  // namespace

void causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.max_seq_len), static_cast<unsigned>(args.num_heads),
                  static_cast<unsigned>(args.num_seqs));
  kv::attention::with_head_dim(args.head_dim, [&](auto head_dim) {
    kv::launch(causal_attention_kernel<head_dim.value>,
               {grid, dim3(32), 0, "launching causal attention"}, stream, args);
  });
}

}  // namespace lesson01
