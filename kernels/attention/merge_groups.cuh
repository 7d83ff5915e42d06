#pragma once

// The end of attention over more than one group of keys: merges the groups' results in order. It
// follows the kernel that left them, each as a `Partial`: PartialGroup of stream_queries.cuh, or
// hopper::RunPartial.
//
// The factors of a merge depend only on the largest scores. A warp computes their running maximum
// for 32 groups at once, a group in each lane. That leaves one fused multiply-add per group to do
// in order, and one multiplication where a larger score may come. The bits are those of merging one
// group after the other.
//
// A CTA is one warp and needs nothing but registers, so it fits on an SM beside those of the kernel
// before. It is there when their last one ends, and does not delay the copies of the next kernel.

#include <algorithm>

#include "kernels/attention/pairs.cuh"
#include "kernels/attention/plan.h"
#include "kernels/attention/state.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr int kMergeBatch = 32;
/// Elements of acc that a warp merges, one in each lane. The last lane merges l, which joins as
/// they do.
inline constexpr int kMergeElements = 31;

/// 32 groups of one pair: this lane's element of each, and m of group first + lane.
template <class Partial>
struct MergeBatch {
  /// Floats from one group's partial results to those of the next.
  static constexpr int kStride = sizeof(Partial) / sizeof(float);
  float part[kMergeBatch];
  float m;

  /// Issues all loads before any of them is used. A compiler would move each load to its use, and
  /// wait for 32 of them in turn. `m_of` and `part_of` point to the batch's first group, so that
  /// each load's address is a constant away. After `count` groups the parts are -0, which changes
  /// no sum.
  __device__ void load(const float* m_of, const float* part_of, int count) {
    m = load_now(m_of + min(static_cast<int>(threadIdx.x), count - 1) * kStride);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      part[i] = i < count ? load_now(part_of + i * kStride) : -0.0f;
    }
  }
  /// How this lane's group joins all groups before it, whose largest score is m_before.
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

  /// Appends the groups in order. No branch comes between two steps, so the shuffles run ahead of
  /// the sums. kScales is false if no group raises the largest score.
  template <bool kScales>
  __device__ void append_groups(float& sum, const Merge& mine) const {
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      const float scale_a = kScales ? __shfl_sync(kFullWarp, mine.scale_a, i) : 1.0f;
      const Merge merge = {0.0f, scale_a, __shfl_sync(kFullWarp, mine.scale_b, i)};
      sum = merge(sum, part[i]);
    }
  }
  /// Appends the batch's groups in order to `sum`, this lane's element, and updates `largest`.
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

/// Grid: (num_kv_heads times the slices of a head, pairs of a block, num_seqs * blocks); 32
/// threads. A slice is kMergeElements elements. Blocks that see one group have their result
/// already.
template <bool kWindow, class Partial>
__global__ void __launch_bounds__(32)
    merge_groups_kernel(Queries queries, const Partial* partials, int max_groups,
                        int blocks_per_seq, int pairs_per_block) {
  let_successors_start();
  constexpr int kHeadDim = Partial::kElements;
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
  const Partial& group0 = partials[block * max_groups + first_group - keys_begin / kGroupTokens];
  const float* m_of = group0.m_of(pair_in_block);
  const float* part_of = lane == kMergeElements
                             ? group0.l_of(pair_in_block)
                             : group0.acc_of(pair_in_block, min(element, kHeadDim - 1));

  using Batch = MergeBatch<Partial>;
  Batch batch, next;
  next.load(m_of, part_of, num_groups);
  // The first group's sum begins here: it is multiplied by 1, and adding it to -0 keeps its bits.
  float largest = -INFINITY, sum = -0.0f;
  for (int first = 0; first < num_groups; first += kMergeBatch) {
    batch = next;
    if (first + kMergeBatch < num_groups) {
      m_of += kMergeBatch * Batch::kStride;
      part_of += kMergeBatch * Batch::kStride;
      next.load(m_of, part_of, num_groups - first - kMergeBatch);
    }
    batch.append_to(largest, sum);
  }
  const float inverse = 1.0f / __shfl_sync(kFullWarp, sum, kMergeElements);
  if (lane == kMergeElements || element >= kHeadDim) return;
  out_row(queries, pairs, pair)[element] = __float2bfloat16(quotient(sum, inverse));
}

/// The place of partial results in a workspace, after its counters.
template <class Partial>
Partial* partials_of(void* workspace) {
  return reinterpret_cast<Partial*>(static_cast<unsigned int*>(workspace) + kWorkspaceCounters);
}

template <class Partial>
void launch_merge(const Queries& queries, const Plan& plan, const Partial* partials,
                  const Stream& stream) {
  constexpr int kSlices = (Partial::kElements + kMergeElements - 1) / kMergeElements;
  const auto slices = static_cast<unsigned>(queries.num_kv_heads * kSlices);
  const auto blocks = static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq);
  const auto pairs =
      static_cast<unsigned>(std::min<int64_t>(plan.pairs_per_block, queries.max_pairs()));
  const auto kernel =
      queries.window > 0 ? merge_groups_kernel<true, Partial> : merge_groups_kernel<false, Partial>;
  launch_dependent(
      kernel, {dim3(slices, pairs, blocks), dim3(32), 0, "launching the merge of attention"},
      stream, queries, partials, plan.max_groups, plan.blocks_per_seq, plan.pairs_per_block);
}

}  // namespace kv::attention
