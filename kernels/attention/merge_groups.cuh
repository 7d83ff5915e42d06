#pragma once

// The end of attention over more than one group of keys: the groups' results, merged in order. It
// follows stream_queries.cuh, and run_queries.cuh where a sequence has more groups than the warp
// that comes last should merge (Plan::merges_apart).
//
// The factors of a merge depend only on the largest scores, whose running maximum a warp computes
// for 32 groups at once, a group in each lane. In order there remain a multiplication and a fused
// multiply-add per group, or only the latter as long as no larger score comes. The bits are those
// of merging one after the other.
//
// A CTA is one warp and needs nothing but registers. So it finds room beside a CTA of
// run_queries.cuh: it is there when the last run ends, and the copies of the kernel that follows
// do not wait for it.

#include "kernels/attention/pairs.cuh"
#include "kernels/attention/state.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr int kMergeBatch = 32;
/// Elements of a head in a warp: those of acc, one in each lane, and in the last lane l, which is
/// merged as they are.
inline constexpr int kMergeElements = 31;

/// Floats from one group's partial results to the next one's.
template <int kHeadDim>
inline constexpr int kGroupStride = sizeof(PartialGroup<kHeadDim>) / sizeof(float);

/// 32 groups of one pair: this lane's element of each, and m of group first + lane.
template <int kHeadDim>
struct MergeBatch {
  float part[kMergeBatch];
  float m;

  /// All loads are issued here, before any of them is used: a compiler would move each one to its
  /// use, and wait for 32 of them in turn. `m_of` and `part_of` are those of the batch's first
  /// group, so that each load's address is a constant away. After `count` groups come -0, which
  /// change no sum.
  __device__ void load(const float* m_of, const float* part_of, int count) {
    m = load_now(m_of + min(static_cast<int>(threadIdx.x), count - 1) * kGroupStride<kHeadDim>);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      part[i] = i < count ? load_now(part_of + i * kGroupStride<kHeadDim>) : -0.0f;
    }
  }
  /// How this lane's group joins all before it, which have the largest score m_before.
  __device__ Merge merge_of_lane(float m_before) const {
    const int lane = static_cast<int>(threadIdx.x);
    float m_to = fmaxf(m_before, m);  // the largest up to and with this lane's group
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(kFullWarp, m_to, distance);
      if (lane >= distance) m_to = fmaxf(m_to, other);
    }
    const float before = __shfl_up_sync(kFullWarp, m_to, 1);
    return {m_to, exp2_fast((lane == 0 ? m_before : before) - m_to), exp2_fast(m - m_to)};
  }

  /// Appends the groups in order. No branch comes between two steps: the shuffles run ahead of the
  /// sums. kScales: a larger score may come than there was before.
  template <bool kScales>
  __device__ void append_groups(float& sum, const Merge& mine) const {
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      const float scale_a = kScales ? __shfl_sync(kFullWarp, mine.scale_a, i) : 1.0f;
      const Merge merge = {0.0f, scale_a, __shfl_sync(kFullWarp, mine.scale_b, i)};
      sum = merge(sum, part[i]);
    }
  }
  /// Appends the groups in order: to their largest score and the sum in this lane.
  __device__ void append_to(float& largest, float& sum) const {
    const Merge mine = merge_of_lane(largest);
    if (__any_sync(kFullWarp, mine.scale_a != 1.0f)) {
      append_groups<true>(sum, mine);
    } else {
      append_groups<false>(sum, mine);
    }
    largest = __shfl_sync(kFullWarp, mine.m, 31);
  }
};

/// Grid: (num_kv_heads and kMergeElements of a head, pairs of a block, num_seqs * blocks); 32
/// threads. Blocks that see one group have their result already.
template <int kHeadDim, bool kWindow>
__global__ void __launch_bounds__(32)
    merge_groups_kernel(Queries queries, const PartialGroup<kHeadDim>* partials, int max_groups,
                        int blocks_per_seq, int pairs_per_block) {
  let_successors_start();
  constexpr int kSlices = (kHeadDim + kMergeElements - 1) / kMergeElements;
  const int lane = static_cast<int>(threadIdx.x);
  const int kv_head = static_cast<int>(blockIdx.x) / kSlices;
  const int element = static_cast<int>(blockIdx.x) % kSlices * kMergeElements + lane;
  const int pair_in_block = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int pair = static_cast<int>(blockIdx.z) % blocks_per_seq * pairs_per_block + pair_in_block;
  const Pairs pairs = pairs_of(queries, seq, kv_head, kWindow);
  wait_for_predecessors();
  if (pair >= pairs.count()) return;
  const int first_pair = pair - pair_in_block;
  const int last_pair = min(first_pair + pairs_per_block, pairs.count()) - 1;
  const int keys_begin = pairs.first_key(first_pair);
  if (same_group(keys_begin, pairs.num_keys(last_pair) - 1)) return;
  const int first_group = pairs.first_key(pair) / kGroupTokens;
  const int num_groups = (pairs.num_keys(pair) + kGroupTokens - 1) / kGroupTokens - first_group;
  const int64_t block = static_cast<int64_t>(blockIdx.z) * queries.num_kv_heads + kv_head;
  const PartialGroup<kHeadDim>& group0 =
      partials[block * max_groups + first_group - keys_begin / kGroupTokens];
  const float* m_of = &group0.m[pair_in_block];
  const float* part_of = lane == kMergeElements
                             ? &group0.l[pair_in_block]
                             : &group0.acc[pair_in_block][min(element, kHeadDim - 1)];

  MergeBatch<kHeadDim> batch, next;
  next.load(m_of, part_of, num_groups);
  // Nothing to merge into: the first group is multiplied by 1, and added to -0 it keeps its bits.
  float largest = -INFINITY, sum = -0.0f;
  for (int first = 0; first < num_groups; first += kMergeBatch) {
    batch = next;
    if (first + kMergeBatch < num_groups) {
      m_of += kMergeBatch * kGroupStride<kHeadDim>;
      part_of += kMergeBatch * kGroupStride<kHeadDim>;
      next.load(m_of, part_of, num_groups - first - kMergeBatch);
    }
    batch.append_to(largest, sum);
  }
  const float inverse = 1.0f / __shfl_sync(kFullWarp, sum, kMergeElements);
  if (lane == kMergeElements || element >= kHeadDim) return;
  out_row(queries, pairs, pair)[element] = __float2bfloat16(sum * inverse);
}

}  // namespace kv::attention
