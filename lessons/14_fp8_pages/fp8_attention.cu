// The plain CUDA twin of fp8_attention: lesson 04's kernel, except for the lines that decode an
// element.

#include "fp8_attention.h"

#include <cuda_bf16.h>

#include "e4m3.h"
#include "kernels/attention/head_dims.cuh"
#include "kernels/launch.cuh"
#include "kernels/warp.cuh"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

using bf16 = __nv_bfloat16;
using kv::attention::first_key;

/// The partial result of a warp's query over the keys so far, as in lesson 04.
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
__global__ void fp8_attention_kernel(Fp8AttentionArgs args) {
  constexpr int kPerLane = (kHeadDim + 31) / 32;  // elements of a head in a lane
  const int lane = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z);
  const int row = args.first_row[seq] + static_cast<int>(blockIdx.x);
  if (row >= args.first_row[seq + 1]) return;  // a sequence with fewer rows

  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const Fp8Blocks cache = args.pages();
  const int kv_head = head / (args.num_heads / cache.num_kv_heads);  // GQA: heads share K, V
  const float scale = 1.0f / sqrtf(static_cast<float>(kHeadDim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * kHeadDim;
  const bf16* q_row = static_cast<const bf16*>(args.q) + at;  // [kHeadDim]
  bf16* out_row = static_cast<bf16*>(args.out) + at;          // [kHeadDim]

  // This lane's element i of a head; zero where the head has ended (head_dim 80).
  const auto element = [lane](const Fp8Head& of_head, int i) {
    const int d = lane + 32 * i;
    return d < kHeadDim ? decode(of_head.codes[d], exponent_of(*of_head.scale)) : 0.0f;
  };
  float q[kPerLane];
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + 32 * i;
    q[i] = d < kHeadDim ? __bfloat162float(q_row[d]) : 0.0f;
  }

  LanePartial<kPerLane> so_far;  // no key yet
  for (int key = first_key(position, args.window); key <= position; ++key) {
    const int32_t block_id = table[key / cache.block_size];
    const Fp8Head k = fp8_head(cache, true, block_id, key % cache.block_size, kv_head);
    const Fp8Head v = fp8_head(cache, false, block_id, key % cache.block_size, kv_head);
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

void fp8_attention_cuda(const Fp8AttentionArgs& args, const kv::Stream& stream) {
  lesson04::check_block_size(args.cache.block_size);
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.max_rows_per_seq),
                  static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.num_seqs));
  kv::attention::with_head_dim(args.cache.head_dim, [&](auto head_dim) {
    kv::launch(fp8_attention_kernel<head_dim.value>, {grid, dim3(32), 0, "launching FP8 attention"},
               stream, args);
  });
}

}  // namespace lesson14
