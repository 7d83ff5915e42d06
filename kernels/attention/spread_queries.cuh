#pragma once

// Attention for few queries of a sequence (a decode step): up to 16 pairs (query, head) share a
// CTA, and the keys are spread over the chip: a CTA per group of 256 keys, four warps per tile.
//
// Floor: K and V of every token read once, 2 seq_len num_kv_heads head_dim 2 bytes per layer and
// sequence. At a short context time is latency, not bytes: so all loads of a tile are issued at
// once, those of earlier passes' tokens even before the predecessors of this kernel are done. A CTA
// takes the four tiles of its group at once while the chip has room for all CTAs; else two and two,
// and a multiprocessor holds two CTAs, so that one loads while the other computes.
//
// Measured on an H200 (16 heads, 8 KV heads of 128, graph replay; in front of it rope and append):
//
//   version                                              context 128   16 x 4,096 (floor 62 us)
//   a CTA of 16 warps per group, a barrier per tile           2.9 us   120 us
//   two tiles at a time when the chip is full                 2.9 us    89 us
//   a CTA per tile, the group a cluster                       3.7 us   112 us
//   one copy of the load's code before and after the wait     2.2 us    93 us
//
// The groups of a block of pairs meet in the workspace: each CTA leaves its partial result there,
// and the one that comes last merges them all, first to last. Which one that is leaves no trace.

#include "kernels/attention/plan.h"
#include "kernels/attention/spread_tile.cuh"
#include "kernels/attention/tensor_tile.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

static_assert(kPairsPerBlock == kMmaPairs);

/// Where the groups of one block of pairs meet.
struct SpreadWorkspace {
  /// [kMaxCounters] groups that have come, zero before and after every launch.
  unsigned int* counters;
  /// [blocks of pairs, num_kv_heads, max_groups] of PartialGroup<head_dim>.
  void* partials;
  int max_groups;
};
template <int kHeadDim>
struct PartialGroup {
  float acc[kMmaPairs][kHeadDim];
  float m[kMmaPairs];
  float l[kMmaPairs];
};

/// A pair's m, l and four of its elements, in a lane of the warp that merges the pair.
struct LaneState {
  float m;
  float l;
  float4 acc;

  __device__ void append(const LaneState& b) {
    const Merge merge(m, b.m);
    m = merge.m;
    l = merge(l, b.l);
    acc.x = merge(acc.x, b.acc.x);
    acc.y = merge(acc.y, b.acc.y);
    acc.z = merge(acc.z, b.acc.z);
    acc.w = merge(acc.w, b.acc.w);
  }
  __device__ void store(bf16* out) const {
    const float inverse = 1.0f / l;
    uint2 packed;
    packed.x = pack_bf16(acc.x * inverse, acc.y * inverse);
    packed.y = pack_bf16(acc.z * inverse, acc.w * inverse);
    *reinterpret_cast<uint2*>(out) = packed;
  }
};

/// The result of a pair from its groups' partial results, in order.
template <int kHeadDim>
__device__ inline LaneState merge_groups(const PartialGroup<kHeadDim>* groups, int num_groups,
                                         int pair, int element) {
  const auto read = [&](int group) -> LaneState {  // past the L1 cache: others wrote it
    const PartialGroup<kHeadDim>& g = groups[group];
    return {__ldcg(&g.m[pair]), __ldcg(&g.l[pair]),
            __ldcg(reinterpret_cast<const float4*>(&g.acc[pair][element]))};
  };
  LaneState result = read(0);
#pragma unroll 8
  for (int group = 1; group < num_groups; ++group) result.append(read(group));
  return result;
}

/// The group's result for one pair from its tiles, in order. keys_here: how many of the group's
/// keys the pair sees, at least one.
template <int kHeadDim>
__device__ inline LaneState merge_tiles(const SharedTile<kHeadDim> (&tiles)[kGroupTiles],
                                        int keys_here, int pair, int element) {
  const auto read = [&](int slot) -> LaneState {
    const SharedTile<kHeadDim>& t = tiles[slot];
    return {t.m[pair], t.l[pair], *reinterpret_cast<const float4*>(&t.acc[pair][element])};
  };
  LaneState state = read(0);
  for (int slot = 1; slot < kGroupTiles && slot * kTileTokens < keys_here; ++slot) {
    state.append(read(slot));
  }
  return state;
}

/// Threads of a CTA that takes `tiles` tiles at once.
__host__ __device__ constexpr int spread_threads(int tiles) { return 32 * kQuarters * tiles; }

/// Grid: (max_groups, num_kv_heads, num_seqs * blocks of 16 pairs). Warp 4 i + j of the CTA has
/// quarter j of tile i, then of tile i + kTiles; at the end warp w has its share of the 16 pairs,
/// one or two, and lane l of it elements 4 l .. 4 l + 3.
template <int kHeadDim, int kTiles, class Cache>
__global__ void __launch_bounds__(spread_threads(kTiles), kGroupTiles / kTiles)
    spread_queries_kernel(AttentionPass pass, Cache cache, SpreadWorkspace workspace,
                          int blocks_per_seq) {
  kv::let_successors_start();
  __shared__ SharedTile<kHeadDim> tiles[kGroupTiles];
  __shared__ bool last_group;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int first_pair = static_cast<int>(blockIdx.z) % blocks_per_seq * kMmaPairs;
  const Pairs pairs = pass.pairs(seq, kv_head);
  const int last_pair = min(first_pair + kMmaPairs, pairs.count()) - 1;
  const int keys_end = pairs.num_keys(last_pair);
  if (first_pair > last_pair || group * kGroupTokens >= keys_end) {
    kv::wait_for_predecessors();
    return;
  }

  // What needs no predecessor is done before it ends: for the rows of the scores ...
  const int pair[2] = {first_pair + lane / 4, first_pair + lane / 4 + 8};
  const int num_keys[2] = {pairs.num_keys(pair[0]), pairs.num_keys(pair[1])};
  // A pair that does not exist works on the last one's row; it sees no key and is not stored.
  const bf16* const q_rows[2] = {pass.q + pairs.element(min(pair[0], last_pair)),
                                 pass.q + pairs.element(min(pair[1], last_pair))};
  // ... and for the pairs that this warp merges at the end.
  constexpr int kOwnPairs = kGroupTiles / kTiles;
  const int element = 4 * lane;
  int own_keys[kOwnPairs];
  bf16* own_out[kOwnPairs];
#pragma unroll
  for (int i = 0; i < kOwnPairs; ++i) {
    const int own = first_pair + warp * kOwnPairs + i;
    own_keys[i] = element < kHeadDim ? pairs.num_keys(own) : 0;
    own_out[i] = pass.out + pairs.element(own) + element;
  }

  const auto rows = cache.rows(seq, kv_head);
  const int old_end = min(cache.num_settled(pairs), keys_end);
  // For latency the code stays short: each instruction runs once or twice, and fetching it is most
  // of the time. For throughput the loops are unrolled.
  constexpr int kUnroll = kTiles == kGroupTiles ? 1 : 2;
#pragma unroll kUnroll
  for (int first = 0; first < kGroupTiles; first += kTiles) {
    const int slot = first + warp / kQuarters;
    int tile_begin = group * kGroupTokens + slot * kTileTokens;
    TileShare<kHeadDim> share = {};
    // Tokens of earlier passes were written before this pass began; its own rows come in phase 1.
#pragma unroll kUnroll
    for (int phase = 0; phase < 2; ++phase) {
      // Keeps the compiler from carrying all addresses through the loop.
      if (kUnroll == 1) asm volatile("" : "+r"(tile_begin));
      if (phase == 1 && first == 0) kv::wait_for_predecessors();
      share.load(rows, tile_begin, phase == 0 ? 0 : old_end, phase == 0 ? old_end : keys_end);
    }
    uint4 q[kRowPieces<kHeadDim>][2];
#pragma unroll
    for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
      q[i][0] = row_piece<kHeadDim>(q_rows[0], i, lane % 4);
      q[i][1] = row_piece<kHeadDim>(q_rows[1], i, lane % 4);
    }
    const int visible[2] = {num_keys[0] - tile_begin, num_keys[1] - tile_begin};
    attend_tile_by_four_warps<kHeadDim>(share, q, visible, tile_begin < keys_end, tiles[slot]);
  }
  __syncthreads();

  const int num_groups = (keys_end + kGroupTokens - 1) / kGroupTokens;
  const int64_t block = static_cast<int64_t>(blockIdx.z) * gridDim.y + kv_head;
  auto* partials = static_cast<PartialGroup<kHeadDim>*>(workspace.partials);
  partials += block * workspace.max_groups;
#pragma unroll
  for (int i = 0; i < kOwnPairs; ++i) {
    const int own = warp * kOwnPairs + i;
    const int keys_here = own_keys[i] - group * kGroupTokens;
    if (keys_here <= 0) continue;
    const LaneState state = merge_tiles<kHeadDim>(tiles, keys_here, own, element);
    if (num_groups == 1) {
      state.store(own_out[i]);
      continue;
    }
    PartialGroup<kHeadDim>& partial = partials[group];
    *reinterpret_cast<float4*>(&partial.acc[own][element]) = state.acc;
    if (lane == 0) {
      partial.m[own] = state.m;
      partial.l[own] = state.l;
    }
  }
  if (num_groups == 1) return;

  __threadfence();  // the partial result is out before the counter says so
  __syncthreads();
  if (threadIdx.x == 0) {
    // Wraps to zero with the last group, so the counter is ready for the next launch.
    const auto last = static_cast<unsigned int>(num_groups - 1);
    last_group = atomicInc(&workspace.counters[block], last) == last;
    __threadfence();
  }
  __syncthreads();
  if (!last_group) return;
#pragma unroll
  for (int i = 0; i < kOwnPairs; ++i) {
    if (own_keys[i] == 0) continue;
    const int groups_seen = (own_keys[i] + kGroupTokens - 1) / kGroupTokens;
    merge_groups<kHeadDim>(partials, groups_seen, warp * kOwnPairs + i, element).store(own_out[i]);
  }
}

}  // namespace kv::attention
