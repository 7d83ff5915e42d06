#pragma once

// Attention for few queries of a sequence (a decode step): up to 16 pairs (query, head) share a
// CTA, and the keys are spread over the chip: a CTA per group of 256 keys, 4 warps per tile.
//
// Floor: K and V of every token read once, 2 seq_len num_kv_heads head_dim 2 bytes per layer and
// sequence. At a short context time is latency, not bytes: so all loads of a CTA are issued at
// once, straight into the registers where the tensor cores want them, and those of earlier passes'
// tokens even before the predecessors of this kernel are done.
//
// The groups of a block of pairs meet in the workspace: each CTA leaves its partial result there,
// and the one that comes last merges them all, first to last. Which one that is leaves no trace.

#include "kernels/launch.cuh"
#include "lessons/01_no_cache/attention_tile.cuh"
#include "lessons/02_flat_cache/decode_plan.h"

namespace lesson02 {

using lesson01::AttentionPass;
using lesson01::bf16;
using lesson01::kGroupTiles;
using lesson01::kGroupTokens;
using lesson01::kMmaPairs;
using lesson01::kQuarters;
using lesson01::kQuarterTokens;
using lesson01::kTileTokens;
using lesson01::Merge;
using lesson01::Pairs;

static_assert(kPairsPerBlock == kMmaPairs);

/// Where the CTAs of one block of pairs meet.
struct Workspace {
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

/// N neighbouring bf16 of a row, in one load where their size allows it.
template <int N>
struct Elements {
  uint16_t x[N];

  /// Only the first `count` of them, if a row may end before N.
  __device__ void load(const bf16* src, int count) {
    if constexpr (N == 4) {
      *reinterpret_cast<uint2*>(x) = *reinterpret_cast<const uint2*>(src);
    } else if constexpr (N == 2) {
      *reinterpret_cast<uint32_t*>(x) = *reinterpret_cast<const uint32_t*>(src);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (i < count) x[i] = reinterpret_cast<const uint16_t*>(src)[i];
      }
    }
  }
};

/// A warp's share of a tile: K of its quarter's 16 keys, all elements; V of all 64 keys, a quarter
/// of the elements. What is not loaded is zero.
template <int kHeadDim>
struct TileShare {
  static constexpr int kPieces = lesson01::kRowPieces<kHeadDim>;
  static constexpr int kColumns = (kHeadDim + 31) / 32;  // products of 8 columns along the elements
  static constexpr int kWidth = 8 * kColumns;            // elements of V per warp

  uint4 k[2][kPieces];                            // [n]: key 8 n + quad of the quarter
  alignas(8) Elements<kColumns> v[kQuarters][4];  // k-slots 2t, 2t + 1, 2t + 8, 2t + 9 of the step

  /// Loads what lies in tokens begin .. end - 1.
  template <class Rows>
  __device__ void load(const Rows& rows, int tile_begin, int begin, int end) {
    if (begin >= end || end <= tile_begin || begin >= tile_begin + kTileTokens) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int quad = lane / 4;
    const int t = lane % 4;
    const int quarter = static_cast<int>(threadIdx.x) / 32 % kQuarters;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int token = tile_begin + kQuarterTokens * quarter + 8 * n + quad;
      if (token < begin || token >= end) continue;
      const bf16* row = rows.k_row(token);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) k[n][i] = lesson01::row_piece<kHeadDim>(row, i, t);
    }
    // Column n of product j is element n * kColumns + j, so that a lane's elements are neighbours.
    const int element = kWidth * quarter + kColumns * quad;
    if (element >= kHeadDim) return;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
      for (int slot = 0; slot < 4; ++slot) {
        const int token = tile_begin + kQuarterTokens * i + 2 * t + slot % 2 + slot / 2 * 8;
        if (token < begin || token >= end) continue;
        v[i][slot].load(rows.v_row(token) + element, kHeadDim - element);
      }
    }
  }
};

__device__ inline uint32_t pack_halves(uint16_t low, uint16_t high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

/// What the warps of a CTA tell each other.
template <int kHeadDim>
struct FewShared {
  static constexpr int kStride = kHeadDim + 4;  // spreads the rows of a store over the banks
  float acc[kGroupTiles][kMmaPairs][kStride];
  uint4 p[kGroupTiles][kQuarters][32];        // operand A of a quarter's step, by lane
  float part[kGroupTiles][kQuarters][2][32];  // of l, by lane, for pairs quad and quad + 8
  float quarter_max[kGroupTiles][kQuarters][kMmaPairs];
  float m[kGroupTiles][kMmaPairs];
  float l[kGroupTiles][kMmaPairs];
  bool last;
};

/// The tiles `slot` of a group from scratch, each by four warps; m, l and acc go to shared memory.
/// q: the rows of pairs quad and quad + 8. visible[h]: how many of the tile's keys pair quad + 8 h
/// sees. All threads of the CTA must call it; those whose tile is not `active` only keep the others
/// company.
template <int kHeadDim>
__device__ inline void attend_tile(const TileShare<kHeadDim>& share,
                                   const uint4 (&q)[lesson01::kRowPieces<kHeadDim>][2],
                                   const int (&visible)[2], int slot, bool active,
                                   FewShared<kHeadDim>& shared) {
  using Share = TileShare<kHeadDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quad = lane / 4;
  const int t = lane % 4;
  const int quarter = static_cast<int>(threadIdx.x) / 32 % kQuarters;
  const float scale = lesson01::score_scale<kHeadDim>();

  lesson01::QuarterScores s = {};
  if (active) {
#pragma unroll
    for (int i = 0; i < Share::kPieces; ++i) {
      lesson01::mma_piece<kHeadDim>(s[0], q[i], share.k[0][i], i);
      lesson01::mma_piece<kHeadDim>(s[1], q[i], share.k[1][i], i);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int here = visible[h] - quarter * kQuarterTokens;
      const float largest = lesson01::quad_max(lesson01::lane_max(s, h, here, t));
      if (t == 0) shared.quarter_max[slot][quarter][quad + 8 * h] = largest;
    }
  }
  __syncthreads();

  float m[2];
  if (active) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < kQuarters; ++i) {
        largest = fmaxf(largest, shared.quarter_max[slot][i][quad + 8 * h]);
      }
      m[h] = largest * scale;
      const int here = visible[h] - quarter * kQuarterTokens;
      shared.part[slot][quarter][h][lane] = lesson01::quarter_softmax(s, h, here, t, scale, m[h]);
    }
    uint32_t a[4];
    lesson01::quarter_operand(s, a);
    shared.p[slot][quarter][lane] = {a[0], a[1], a[2], a[3]};
  }
  __syncthreads();
  if (!active) return;

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const auto& part = shared.part[slot];
    const float l =
        lesson01::tile_sum(part[0][h][lane], part[1][h][lane], part[2][h][lane], part[3][h][lane]);
    if (quarter == 0 && t == 0) {
      shared.m[slot][quad + 8 * h] = m[h];
      shared.l[slot][quad + 8 * h] = l;
    }
  }
  float acc[Share::kColumns][4] = {};
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    const uint4 p = shared.p[slot][i][lane];
#pragma unroll
    for (int j = 0; j < Share::kColumns; ++j) {
      const auto& v = share.v[i];
      lesson01::mma(acc[j], {p.x, p.y, p.z, p.w}, pack_halves(v[0].x[j], v[1].x[j]),
                    pack_halves(v[2].x[j], v[3].x[j]));
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (visible[h] <= 0) continue;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int element = Share::kWidth * quarter + (2 * t + c) * Share::kColumns;
      if (element >= kHeadDim) continue;
      float* out = &shared.acc[slot][quad + 8 * h][element];  // up to 2 past the row: padding
      if constexpr (Share::kColumns == 4) {
        *reinterpret_cast<float4*>(out) = {acc[0][2 * h + c], acc[1][2 * h + c], acc[2][2 * h + c],
                                           acc[3][2 * h + c]};
      } else {
#pragma unroll
        for (int j = 0; j < Share::kColumns; ++j) out[j] = acc[j][2 * h + c];
      }
    }
  }
}

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
    packed.x = lesson01::pack_bf16(acc.x * inverse, acc.y * inverse);
    packed.y = lesson01::pack_bf16(acc.z * inverse, acc.w * inverse);
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
__device__ inline LaneState merge_tiles(const FewShared<kHeadDim>& shared, int keys_here, int pair,
                                        int element) {
  const auto read = [&](int slot) -> LaneState {
    return {shared.m[slot][pair], shared.l[slot][pair],
            *reinterpret_cast<const float4*>(&shared.acc[slot][pair][element])};
  };
  LaneState state = read(0);
  for (int slot = 1; slot < kGroupTiles && slot * kTileTokens < keys_here; ++slot) {
    state.append(read(slot));
  }
  return state;
}

/// Threads of a CTA that takes `tiles` tiles at once.
constexpr int few_threads(int tiles) { return 32 * kQuarters * tiles; }

/// Grid: (max_groups, num_kv_heads, num_seqs * blocks of 16 pairs). Warp 4 i + j of the CTA has
/// quarter j of tile i, then of tile i + kTiles; at the end warp w has its share of the 16 pairs,
/// one or two, lane l of it elements 4 l .. 4 l + 3.
template <int kHeadDim, int kTiles, class Cache>
__global__ void __launch_bounds__(few_threads(kTiles), kGroupTiles / kTiles)
    few_queries_kernel(AttentionPass pass, Cache cache, Workspace workspace, int blocks_per_seq) {
  kv::let_successors_start();
  __shared__ FewShared<kHeadDim> shared;

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
  uint4 q[lesson01::kRowPieces<kHeadDim>][2];
#pragma unroll
  for (int first = 0; first < kGroupTiles; first += kTiles) {
    const int slot = first + warp / kQuarters;
    const int tile_begin = group * kGroupTokens + slot * kTileTokens;
    TileShare<kHeadDim> share = {};
    // Tokens of earlier passes were written before this pass began; its own rows come now.
    share.load(rows, tile_begin, 0, old_end);
    if (first == 0) {
      kv::wait_for_predecessors();
#pragma unroll
      for (int i = 0; i < lesson01::kRowPieces<kHeadDim>; ++i) {
        q[i][0] = lesson01::row_piece<kHeadDim>(q_rows[0], i, lane % 4);
        q[i][1] = lesson01::row_piece<kHeadDim>(q_rows[1], i, lane % 4);
      }
    }
    share.load(rows, tile_begin, old_end, keys_end);
    const int visible[2] = {num_keys[0] - tile_begin, num_keys[1] - tile_begin};
    attend_tile<kHeadDim>(share, q, visible, slot, tile_begin < keys_end, shared);
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
    const LaneState state = merge_tiles<kHeadDim>(shared, keys_here, own, element);
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
    shared.last = atomicInc(&workspace.counters[block], last) == last;
    __threadfence();
  }
  __syncthreads();
  if (!shared.last) return;
#pragma unroll
  for (int i = 0; i < kOwnPairs; ++i) {
    if (own_keys[i] == 0) continue;
    const int groups_seen = (own_keys[i] + kGroupTokens - 1) / kGroupTokens;
    merge_groups<kHeadDim>(partials, groups_seen, warp * kOwnPairs + i, element).store(own_out[i]);
  }
}

}  // namespace lesson02
