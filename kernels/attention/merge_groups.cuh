#pragma once

// The end of streaming attention over more than one group of keys: the groups' results, merged in
// order.
//
// What a merge multiplies by depends on the largest scores alone, and a running maximum can be had
// for 32 groups at once. So the factors are computed side by side, a group in each lane, and what
// is left in order is a multiplication and a fused multiply-add per group. The bits are those of
// merging one after the other.

#include "kernels/attention/pairs.cuh"
#include "kernels/attention/state.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr int kMergeBatch = 32;

/// 32 groups of one pair: one element of each, and m and l of group first + lane.
template <int kHeadDim>
struct MergeBatch {
  float part[kMergeBatch];
  float m;
  float l;

  /// All loads are issued here, before any of them is used: a compiler would move each one to its
  /// use, and wait for 32 of them in turn.
  __device__ void load(const PartialGroup<kHeadDim>* groups, int first, int num_groups, int pair,
                       int element) {
    const int mine = min(first + static_cast<int>(threadIdx.x) % 32, num_groups - 1);
    m = load_now(&groups[mine].m[pair]);
    l = load_now(&groups[mine].l[pair]);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      part[i] = first + i < num_groups ? load_now(&groups[first + i].acc[pair][element]) : 0.0f;
    }
  }
  /// How this lane's group joins all before it, which have the largest score m_before.
  __device__ Merge merge_of_lane(float m_before) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float m_to = fmaxf(m_before, m);  // the largest up to and with this lane's group
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(kFullWarp, m_to, distance);
      if (lane >= distance) m_to = fmaxf(m_to, other);
    }
    const float before = __shfl_up_sync(kFullWarp, m_to, 1);
    return {m_to, exp2_fast((lane == 0 ? m_before : before) - m_to), exp2_fast(m - m_to)};
  }

  /// Appends the batch's groups, of which the first is group `first`, in order.
  __device__ void append_to(PairState<1>& state, int first, int num_groups) const {
    const Merge mine = merge_of_lane(state.m);
    const float m_all = __shfl_sync(kFullWarp, mine.m, 31);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      const Merge merge = {m_all, __shfl_sync(kFullWarp, mine.scale_a, i),
                           __shfl_sync(kFullWarp, mine.scale_b, i)};
      const PairState<1> group = {m, __shfl_sync(kFullWarp, l, i), {part[i]}};
      if (first + i >= num_groups) break;
      if (first + i == 0) {  // merging into nothing is copying
        state.l = group.l;
        state.acc[0] = group.acc[0];
      } else {
        state.append(group, merge);
      }
    }
    state.m = m_all;
  }
};

/// Grid: (num_kv_heads, pairs of a block, num_seqs * blocks); a thread for each element of a head,
/// rounded up to whole warps. Blocks that see one group have their result already.
template <int kHeadDim, bool kWindow>
__global__ void merge_groups_kernel(Queries queries, const PartialGroup<kHeadDim>* partials,
                                    int max_groups, int blocks_per_seq, int pairs_per_block) {
  let_successors_start();
  wait_for_predecessors();
  const int kv_head = static_cast<int>(blockIdx.x);
  const int pair_in_block = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int pair = static_cast<int>(blockIdx.z) % blocks_per_seq * pairs_per_block + pair_in_block;
  const Pairs pairs = pairs_of(queries, seq, kv_head, kWindow);
  if (pair >= pairs.count()) return;
  const int first_pair = pair - pair_in_block;
  const int last_pair = min(first_pair + pairs_per_block, pairs.count()) - 1;
  const int keys_begin = pairs.first_key(first_pair);
  if (same_group(keys_begin, pairs.num_keys(last_pair) - 1)) return;
  const int first_group = pairs.first_key(pair) / kGroupTokens;
  const int num_groups = (pairs.num_keys(pair) + kGroupTokens - 1) / kGroupTokens - first_group;
  const auto* groups = partials +
                       (static_cast<int64_t>(blockIdx.z) * gridDim.x + kv_head) * max_groups +
                       (first_group - keys_begin / kGroupTokens);
  const int element = min(static_cast<int>(threadIdx.x), kHeadDim - 1);

  MergeBatch<kHeadDim> batch, next;
  next.load(groups, 0, num_groups, pair_in_block, element);
  PairState<1> state = {-INFINITY, 0.0f, {0.0f}};
  for (int first = 0; first < num_groups; first += kMergeBatch) {
    batch = next;
    if (first + kMergeBatch < num_groups) {
      next.load(groups, first + kMergeBatch, num_groups, pair_in_block, element);
    }
    batch.append_to(state, first, num_groups);
  }
  if (static_cast<int>(threadIdx.x) >= kHeadDim) return;
  out_row(queries, pairs, pair)[element] = __float2bfloat16(state.acc[0] * (1.0f / state.l));
}

}  // namespace kv::attention
