// The plain CUDA twin of paged_attention: a warp for each query, which takes the keys in ascending
// order. Two things are new since lesson 01's kernel: the block table says where a key's row is,
// and the online softmax is written as a merge.

#include "paged_attention.h"

#include <cuda_bf16.h>

#include "kernels/attention/head_dims.cuh"
#include "kernels/launch.cuh"
#include "kernels/warp.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson04 {
namespace {

using bf16 = __nv_bfloat16;
using kv::attention::first_key;
using lesson03::k_row;
using lesson03::v_row;

/// The partial result of a warp's query over the keys so far. m and l are the same in every lane;
/// acc holds this lane's elements.
template <int kPerLane>
struct LanePartial {
  float m = -INFINITY;
  float l = 0.0f;
  float acc[kPerLane] = {};
};

/// Appends the partial result of later keys to that of earlier ones.
template <int kPerLane>
__device__ void merge(LanePartial<kPerLane>& a, float m, float l, const float (&acc)[kPerLane]) {
  const float larger = fmaxf(a.m, m);
  const float shrink_a = expf(a.m - larger);  // 0 as long as `a` has no key
  const float shrink = expf(m - larger);
  a.m = larger;
  a.l = a.l * shrink_a + l * shrink;
  for (int i = 0; i < kPerLane; ++i) a.acc[i] = a.acc[i] * shrink_a + acc[i] * shrink;
}

/// Grid: (most rows of a sequence, num_heads, num_seqs). A CTA is one warp: one query.
template <int kHeadDim>
__global__ void paged_attention_kernel(PagedAttentionArgs args) {
  constexpr int kPerLane = (kHeadDim + 31) / 32;  // elements of a head in a lane
  const int lane = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z);
  const int row = args.first_row[seq] + static_cast<int>(blockIdx.x);
  if (row >= args.first_row[seq + 1]) return;  // a sequence with fewer rows

  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int block_size = args.cache.block_size;
  const int kv_head = head / (args.num_heads / args.cache.num_kv_heads);  // GQA: heads share K, V
  const float scale = 1.0f / sqrtf(static_cast<float>(kHeadDim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * kHeadDim;
  const bf16* q_row = static_cast<const bf16*>(args.q) + at;  // [kHeadDim]
  bf16* out_row = static_cast<bf16*>(args.out) + at;          // [kHeadDim]

  // This lane's element i of a row; zero where the row has ended (head_dim 80).
  const auto element = [lane](const bf16* of_row, int i) {
    const int d = lane + 32 * i;
    return d < kHeadDim ? __bfloat162float(of_row[d]) : 0.0f;
  };
  float q[kPerLane];
  for (int i = 0; i < kPerLane; ++i) q[i] = element(q_row, i);

  LanePartial<kPerLane> so_far;  // no key yet
  for (int key = first_key(position, args.window); key <= position; ++key) {
    const int32_t block_id = table[key / block_size];
    const int offset = key % block_size;
    const bf16* k = k_row<bf16>(args.cache, block_id, offset) + kv_head * kHeadDim;
    const bf16* v = v_row<bf16>(args.cache, block_id, offset) + kv_head * kHeadDim;
    float dot = 0.0f;       // this lane's part of the product
    float value[kPerLane];  // this lane's elements of V
    for (int i = 0; i < kPerLane; ++i) {
      dot += q[i] * element(k, i);
      value[i] = element(v, i);
    }
    merge(so_far, kv::warp_sum(dot) * scale, 1.0f, value);  // the same score in every lane
  }
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + 32 * i;
    if (d < kHeadDim) out_row[d] = __float2bfloat16(so_far.acc[i] / so_far.l);
  }
}

}  // namespace

void paged_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_block_size(args.cache.block_size);
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.max_rows_per_seq),
                  static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.num_seqs));
  kv::attention::with_head_dim(args.cache.head_dim, [&](auto head_dim) {
    kv::launch(paged_attention_kernel<head_dim.value>,
               {grid, dim3(32), 0, "launching paged attention"}, stream, args);
  });
}

}  // namespace lesson04
