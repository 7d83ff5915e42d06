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

inline constexpr int kFewThreads = 32 * kGroupTiles * kQuarters;
static_assert(kFewThreads / 32 == kMmaPairs, "at the end a warp merges one pair");
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

  __device__ void load(const bf16* src) {
    if constexpr (N == 4) {
      *reinterpret_cast<uint2*>(x) = *reinterpret_cast<const uint2*>(src);
    } else if constexpr (N == 2) {
      *reinterpret_cast<uint32_t*>(x) = *reinterpret_cast<const uint32_t*>(src);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = reinterpret_cast<const uint16_t*>(src)[i];
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
        if (token >= begin && token < end) v[i][slot].load(rows.v_row(token) + element);
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

/// Waits for the four warps of one tile.
__device__ inline void tile_barrier(int tile_slot) {
  asm volatile("bar.sync %0, %1;" ::"r"(tile_slot + 1), "n"(32 * kQuarters) : "memory");
}

/// One tile from scratch by its four warps; m, l and acc go to shared memory. visible[h]: how many
/// of its keys pair quad + 8 h sees.
template <int kHeadDim>
__device__ inline void attend_tile(const TileShare<kHeadDim>& share, const bf16* const (&q_rows)[2],
                                   const int (&visible)[2], FewShared<kHeadDim>& shared) {
  using Share = TileShare<kHeadDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quad = lane / 4;
  const int t = lane % 4;
  const int quarter = static_cast<int>(threadIdx.x) / 32 % kQuarters;
  const int slot = static_cast<int>(threadIdx.x) / 32 / kQuarters;
  const float scale = lesson01::score_scale<kHeadDim>();

  lesson01::QuarterScores s = {};
#pragma unroll
  for (int i = 0; i < Share::kPieces; ++i) {
    const uint4 q[2] = {lesson01::row_piece<kHeadDim>(q_rows[0], i, t),
                        lesson01::row_piece<kHeadDim>(q_rows[1], i, t)};
    lesson01::mma_piece<kHeadDim>(s[0], q, share.k[0][i], i);
    lesson01::mma_piece<kHeadDim>(s[1], q, share.k[1][i], i);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float largest = lesson01::quarter_max(s, h, visible[h] - quarter * kQuarterTokens, t);
    if (t == 0) shared.quarter_max[slot][quarter][quad + 8 * h] = largest;
  }
  tile_barrier(slot);
  float m[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      largest = fmaxf(largest, shared.quarter_max[slot][i][quad + 8 * h]);
    }
    m[h] = largest * scale;
    shared.part[slot][quarter][h][lane] =
        lesson01::quarter_softmax(s, h, visible[h] - quarter * kQuarterTokens, t, scale, m[h]);
  }
  uint32_t a[4];
  lesson01::quarter_operand(s, a);
  shared.p[slot][quarter][lane] = {a[0], a[1], a[2], a[3]};
  tile_barrier(slot);

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
#pragma unroll
      for (int j = 0; j < Share::kColumns; ++j) {
        shared.acc[slot][quad + 8 * h][element + j] = acc[j][2 * h + c];
      }
    }
  }
  if (quarter != 0) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const auto& part = shared.part[slot];
    const float l =
        lesson01::tile_sum(part[0][h][lane], part[1][h][lane], part[2][h][lane], part[3][h][lane]);
    if (t != 0) continue;
    shared.m[slot][quad + 8 * h] = m[h];
    shared.l[slot][quad + 8 * h] = l;
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
#pragma unroll 4
  for (int group = 1; group < num_groups; ++group) result.append(read(group));
  return result;
}

/// Grid: (max_groups, num_kv_heads, num_seqs * blocks of 16 pairs). Warp 4 i + j of the CTA has
/// quarter j of tile i of its group; at the end warp p has pair p, lane l its elements 4 l .. 4 l
/// + 3.
template <int kHeadDim, class Cache>
__global__ void __launch_bounds__(kFewThreads, 1)
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

  const int tile_begin = group * kGroupTokens + warp / kQuarters * kTileTokens;
  const auto rows = cache.rows(seq, kv_head);
  // Tokens of earlier passes were written before this pass began; its own rows come now.
  const int old_end = min(cache.num_settled(pairs), keys_end);
  TileShare<kHeadDim> share = {};
  share.load(rows, tile_begin, 0, old_end);
  kv::wait_for_predecessors();
  share.load(rows, tile_begin, old_end, keys_end);

  if (tile_begin < keys_end) {
    const int pair[2] = {first_pair + lane / 4, first_pair + lane / 4 + 8};
    const int visible[2] = {pairs.num_keys(pair[0]) - tile_begin,
                            pairs.num_keys(pair[1]) - tile_begin};
    // A pair that does not exist works on the last one's row; it sees no key and is not stored.
    const bf16* const q_rows[2] = {pass.q + pairs.element(min(pair[0], last_pair)),
                                   pass.q + pairs.element(min(pair[1], last_pair))};
    attend_tile<kHeadDim>(share, q_rows, visible, shared);
  }
  __syncthreads();

  // From here on: one warp, one pair.
  const int element = 4 * lane;
  const int num_keys = pairs.num_keys(first_pair + warp);
  const int keys_here = num_keys - group * kGroupTokens;
  const bool mine = keys_here > 0 && element < kHeadDim;
  const int num_groups = (keys_end + kGroupTokens - 1) / kGroupTokens;
  auto* partials = static_cast<PartialGroup<kHeadDim>*>(workspace.partials);
  const int64_t block = static_cast<int64_t>(blockIdx.z) * gridDim.y + kv_head;
  partials += block * workspace.max_groups;
  if (mine) {
    const auto read = [&](int slot) -> LaneState {
      return {shared.m[slot][warp], shared.l[slot][warp],
              *reinterpret_cast<const float4*>(&shared.acc[slot][warp][element])};
    };
    LaneState state = read(0);
    for (int slot = 1; slot < kGroupTiles && slot * kTileTokens < keys_here; ++slot) {
      state.append(read(slot));
    }
    if (num_groups == 1) {
      state.store(pass.out + pairs.element(first_pair + warp) + element);
    } else {
      PartialGroup<kHeadDim>& partial = partials[group];
      *reinterpret_cast<float4*>(&partial.acc[warp][element]) = state.acc;
      if (lane == 0) {
        partial.m[warp] = state.m;
        partial.l[warp] = state.l;
      }
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
  if (!shared.last || num_keys <= 0 || element >= kHeadDim) return;
  const int groups_seen = (num_keys + kGroupTokens - 1) / kGroupTokens;
  merge_groups<kHeadDim>(partials, groups_seen, warp, element)
      .store(pass.out + pairs.element(first_pair + warp) + element);
}

}  // namespace lesson02
