#pragma once

// Attention for few queries of a sequence over little K and V (a decode step at a short context):
// up to 16 pairs (query, head) share a CTA, and the keys are spread over the chip: a CTA per group
// of 256 keys, four warps per tile.
//
// Floor: K and V of every token read once, 2 seq_len num_kv_heads head_dim 2 bytes per layer and
// sequence. At a short context time is latency, not bytes: so all loads of a group are issued at
// once, those of earlier passes' tokens even before the predecessors of this kernel are done. And
// the code is short: each instruction runs once or twice, and so fetching it counts.
//
// On sm_90, up to kClusterGroups groups of a block of pairs form a cluster. Each CTA leaves its
// partial result in its own shared memory and merges some of the pairs from the memory of all. More
// groups meet in the workspace: each CTA writes its partial result there, and the last CTA merges
// them all. The order is first to last either way, so the bits do not depend on the merging CTA.

#include <cooperative_groups.h>

#include "kernels/attention/plan.h"
#include "kernels/attention/rows.cuh"
#include "kernels/attention/spread/spread_tile.cuh"
#include "kernels/attention/state.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

static_assert(kPairsPerBlock == kMmaPairs);
/// Four tiles at once, each by four warps.
inline constexpr int kSpreadThreads = 32 * kQuarters * kGroupTiles;

/// Counters and partial results of the groups of each block of pairs.
struct SpreadWorkspace {
  /// [kMaxCounters] groups that have finished, zero before and after every launch.
  unsigned int* counters;
  /// [blocks of pairs, num_kv_heads, max_groups] of PartialGroup<head_dim>.
  void* partials;
  int max_groups;
  bool in_clusters;  // the groups meet in a cluster's shared memory, not here
};

/// A lane's part of the pair that its warp merges: elements 4 lane .. 4 lane + 3.
using FourElements = PairState<4>;

__device__ inline FourElements four_elements(float m, float l, const float4& acc) {
  return {m, l, {acc.x, acc.y, acc.z, acc.w}};
}

__device__ inline void store_four(const FourElements& state, bf16* out) {
  const float inverse = 1.0f / state.l;
  uint2 packed;
  packed.x = pack_bf16(quotient(state.acc[0], inverse), quotient(state.acc[1], inverse));
  packed.y = pack_bf16(quotient(state.acc[2], inverse), quotient(state.acc[3], inverse));
  *reinterpret_cast<uint2*>(out) = packed;
}

/// Merges the partial results of a pair's groups in order.
template <int kHeadDim>
__device__ inline FourElements merge_partials(const PartialGroup<kHeadDim>* groups, int num_groups,
                                              int pair, int element) {
  const auto read = [&](int group) {  // past the L1 cache, because other SMs wrote them
    const PartialGroup<kHeadDim>& g = groups[group];
    return four_elements(__ldcg(&g.m[pair]), __ldcg(&g.l[pair]),
                         __ldcg(reinterpret_cast<const float4*>(&g.acc[pair][element])));
  };
  FourElements result = read(0);
#pragma unroll 8
  for (int group = 1; group < num_groups; ++group) result.append(read(group));
  return result;
}

/// Writes a group's partial result of a pair for the CTA that merges.
template <int kHeadDim>
__device__ inline void leave_four(const FourElements& state, PartialGroup<kHeadDim>& left, int pair,
                                  int element) {
  *reinterpret_cast<float4*>(&left.acc[pair][element]) = {state.acc[0], state.acc[1], state.acc[2],
                                                          state.acc[3]};
  if (element == 0) {
    left.m[pair] = state.m;
    left.l[pair] = state.l;
  }
}

/// A share of a tile, all zeros: of bf16 here, of FP8 in fp8/fp8_share.cuh.
template <int kHeadDim, class RowOf>
__device__ inline TileShare<kHeadDim> share_of(const RowsBy<RowOf>&) {
  return {};
}

/// Loads a warp's share of a tile and calls load_queries(). Tokens of earlier passes are loaded
/// before the wait for the predecessors, this pass's own rows after it; one copy of the code serves
/// both. Codes are widened when they are complete, the last ones while the queries are being
/// loaded.
template <class Share, class Rows, class LoadQueries>
__device__ inline void load_around_wait(Share& share, const Rows& rows, int tile_begin,
                                        int keys_begin, int earlier_end, int keys_end,
                                        const LoadQueries& load_queries) {
#pragma unroll 1
  for (int phase = 0; phase < 2; ++phase) {
    // Keeps the compiler from carrying all addresses through the loop.
    asm volatile("" : "+r"(tile_begin));
    if (phase == 1) wait_for_predecessors();
    share.load(rows, tile_begin, phase == 0 ? keys_begin : max(keys_begin, earlier_end),
               phase == 0 ? earlier_end : keys_end);
    if constexpr (Share::kHasCodes) {
      if (phase == 1) load_queries();
      share.widen([&](int begin, int end) {  // true for keys that are complete from this phase on
        const bool early =
            min(tile_begin + end, keys_end) <= earlier_end || tile_begin + begin >= keys_end;
        return early == (phase == 0);
      });
    }
  }
  if constexpr (!Share::kHasCodes) load_queries();
}

/// Counts a group. Returns true, in all threads, in the CTA that comes last of its block's
/// num_groups; it can read the partial results of the others.
__device__ inline bool comes_last(unsigned int* counter, int num_groups) {
  __shared__ bool last_group;
  __threadfence();  // the partial result is visible before the counter is raised
  __syncthreads();
  if (threadIdx.x == 0) {
    // Wraps to zero with the last group, so the counter is ready for the next launch.
    const auto last = static_cast<unsigned int>(num_groups - 1);
    last_group = atomicInc(counter, last) == last;
    __threadfence();
  }
  __syncthreads();
  return last_group;
}

/// The pair that a warp merges at the end, and this lane's elements of it.
struct OwnPair {
  int in_block;
  int element;    // and the three after it
  int first_key;  // that it sees
  int num_keys;   // one past the last key; 0 if the pair or the lane's element does not exist
  bf16* out;
};

/// Merges the groups of a cluster; all its threads call it. CTA i has group i in `left`. CTA i
/// % num_groups merges pair i, which sees `seen` groups from group `first` on.
template <int kHeadDim>
__device__ inline void merge_cluster(const SharedGroup<kHeadDim>& left, int num_groups,
                                     const OwnPair& own, int first, int seen) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  const int pair = own.in_block;
  const bool merges = seen > 0 && pair % num_groups == static_cast<int>(cluster.block_rank());
  FourElements groups[kClusterGroups];
#pragma unroll
  for (int i = 0; i < kClusterGroups; ++i) {  // all loads at once
    if (!merges || i >= seen) continue;
    const auto& from = *cluster.map_shared_rank(&left, first + i);
    groups[i] = four_elements(from.m[pair], from.l[pair],
                              *reinterpret_cast<const float4*>(&from.acc[pair][own.element]));
  }
  cluster.barrier_arrive();
  if (merges) {
#pragma unroll
    for (int i = 1; i < kClusterGroups; ++i) {
      if (i < seen) groups[0].append(groups[i]);
    }
    store_four(groups[0], own.out);
  }
  cluster.barrier_wait();  // no CTA exits while another one reads its shared memory
#endif
}

/// Ends the work of a CTA; all its warps call it. Merges the block's groups where this CTA is the
/// one that does. `block` counts blocks of pairs in the whole pass.
template <int kHeadDim>
__device__ inline void merge_block(const SharedGroup<kHeadDim>& of_cta, const OwnPair& own,
                                   int group, int first_group, int num_groups,
                                   const SpreadWorkspace& workspace, int64_t block) {
  auto* partials = static_cast<PartialGroup<kHeadDim>*>(workspace.partials);
  partials += block * workspace.max_groups;
  const int pair = own.in_block, element = own.element;
  const bool sees_group =
      own.num_keys > group * kGroupTokens && own.first_key < (group + 1) * kGroupTokens;
  const auto state = [&] {
    return four_elements(of_cta.m[pair], of_cta.l[pair],
                         *reinterpret_cast<const float4*>(&of_cta.acc[pair][element]));
  };
  if (num_groups == 1) {
    if (sees_group) store_four(state(), own.out);
    return;
  }
  const int first =
      own.first_key / kGroupTokens - first_group;  // the first group that the pair sees
  const int seen = (own.num_keys + kGroupTokens - 1) / kGroupTokens - first_group - first;
  if (workspace.in_clusters) {
    merge_cluster<kHeadDim>(of_cta, num_groups, own, first, seen);
    return;
  }
  if (sees_group) leave_four(state(), partials[group - first_group], pair, element);
  if (!comes_last(&workspace.counters[block], num_groups) || own.num_keys == 0) return;
  store_four(merge_partials<kHeadDim>(partials + first, seen, pair, element), own.out);
}

/// Grid: (max_groups, num_kv_heads, num_seqs * blocks of 16 pairs). Warp 4 i + j of the CTA takes
/// quarter j of tile i. At the end warp w merges pair w of the block, and its lane l elements 4 l
/// .. 4 l + 3.
template <int kHeadDim, bool kWindow, class Address>
__global__ void __launch_bounds__(kSpreadThreads, 1)
    spread_queries_kernel(Queries queries, Address address, SpreadWorkspace workspace,
                          int blocks_per_seq) {
  let_successors_start();
  __shared__ SharedGroup<kHeadDim> shared;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int first_pair = static_cast<int>(blockIdx.z) % blocks_per_seq * kMmaPairs;
  const Pairs pairs = pairs_of(queries, seq, kv_head, kWindow);
  const int last_pair = min(first_pair + kMmaPairs, pairs.count()) - 1;
  const int keys_begin = pairs.first_key(first_pair), keys_end = pairs.num_keys(last_pair);
  const int first_group = keys_begin / kGroupTokens;
  const int group = first_group + static_cast<int>(blockIdx.x);
  if (first_pair > last_pair || group * kGroupTokens >= keys_end) {
    wait_for_predecessors();
    return;
  }

  // With at most 8 pairs, half of the tall operand's rows are nobody's.
  const int halves = last_pair - first_pair < kMmaPairs / 2 ? 1 : 2;
  // Work that needs no predecessor: the query rows for the scores ...
  const int pair[2] = {first_pair + lane / 4, first_pair + lane / 4 + 8};
  const int num_keys[2] = {pairs.num_keys(pair[0]), pairs.num_keys(pair[1])};
  // A pair that does not exist takes the last one's query; it sees no key and is not stored.
  const bf16* const q_rows[2] = {q_row(queries, pairs, min(pair[0], last_pair)),
                                 q_row(queries, pairs, min(pair[1], last_pair))};
  // ... and the pair that this warp merges at the end.
  const int own_pair = first_pair + warp, element = 4 * lane;
  const OwnPair own = {.in_block = warp,
                       .element = element,
                       .first_key = pairs.first_key(own_pair),
                       .num_keys = element < kHeadDim ? pairs.num_keys(own_pair) : 0,
                       .out = out_row(queries, pairs, own_pair) + element};

  const auto rows = address.rows(seq, kv_head);
  const int tile_begin = group * kGroupTokens + tile_of_warp() * kTileTokens;
  auto share = share_of<kHeadDim>(rows);
  QueryRows<kHeadDim> q;
  load_around_wait(share, rows, tile_begin, keys_begin, min(num_earlier_tokens(pairs), keys_end),
                   keys_end, [&] {
#pragma unroll
                     for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
                       q[i][0] = row_part(q_rows[0], i, lane % 4);
                       q[i][1] = halves == 2 ? row_part(q_rows[1], i, lane % 4) : uint2{};
                     }
                   });
  const int before[2] = {pairs.first_key(pair[0]) - tile_begin,
                         pairs.first_key(pair[1]) - tile_begin};
  const int visible[2] = {num_keys[0] - tile_begin, num_keys[1] - tile_begin};
  const int first_tile = max(keys_begin - group * kGroupTokens, 0) / kTileTokens;
  const int tiles =
      (min(keys_end - group * kGroupTokens, kGroupTokens) + kTileTokens - 1) / kTileTokens;
  attend_to_group<kHeadDim>(share, q, before, visible, first_tile, tiles, halves, shared);

  const int num_groups = (keys_end + kGroupTokens - 1) / kGroupTokens - first_group;
  const int64_t block = static_cast<int64_t>(blockIdx.z) * gridDim.y + kv_head;
  merge_block<kHeadDim>(shared, own, group, first_group, num_groups, workspace, block);
}

}  // namespace kv::attention
