#pragma once

// One group of a decode step: four tiles of 64 keys, four warps each. A warp scores a quarter of
// its tile's keys. Then it multiplies P with a quarter of V's elements, on top of the acc that the
// tile before has left there. K and V go from global memory straight into the registers from which
// the tensor cores read them, all loads at once.

#include "kernels/attention/state.cuh"

namespace kv::attention {

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

/// The number of this warp's tile in the group, and of its quarter in the tile.
__device__ inline int tile_of_warp() { return static_cast<int>(threadIdx.x) / 32 / kQuarters; }
__device__ inline int quarter_of_warp() { return static_cast<int>(threadIdx.x) / 32 % kQuarters; }

/// A warp's share of a tile: of K all elements of its quarter's 16 keys, of V a quarter of the
/// elements of all 64 keys. What is not loaded is zero. K and V in FP8 have an Fp8Share instead.
template <int kHeadDim>
struct TileShare {
  static constexpr bool kHasCodes = false;
  static constexpr int kSteps = kRowSteps<kHeadDim>;
  static constexpr int kColumns = (kHeadDim + 31) / 32;  // products of 8 columns along the elements
  static constexpr int kWidth = 8 * kColumns;            // elements of V per warp

  uint2 k[2][kSteps];                             // [n]: key 8 n + quad of the quarter
  alignas(8) Elements<kColumns> v[kQuarters][4];  // k-slots 2t, 2t + 1, 2t + 8, 2t + 9 of the step

  /// Operands B: step i of K's key 8 n + quad of the quarter, and element j of keys 2 t + 8 h and
  /// the next one of quarter i.
  __device__ const uint2& k_part(int n, int i) const { return k[n][i]; }
  __device__ uint32_t v_pair(int i, int h, int j) const {
    return pack_halves(v[i][2 * h].x[j], v[i][2 * h + 1].x[j]);
  }

  /// Loads the K and V of tokens begin .. end - 1.
  template <class Rows>
  __device__ void load(const Rows& rows, int tile_begin, int begin, int end) {
    if (begin >= end || end <= tile_begin || begin >= tile_begin + kTileTokens) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int quad = lane / 4;
    const int t = lane % 4;
    const int quarter = quarter_of_warp();
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int token = tile_begin + kQuarterTokens * quarter + 8 * n + quad;
      if (token < begin || token >= end) continue;
      const bf16* row = rows.k_row(token);
#pragma unroll
      for (int i = 0; i < kSteps; ++i) k[n][i] = row_part(row, i, t);
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

/// Shared by the warps of a group. acc adds up tile by tile; m and l come at the end.
template <int kHeadDim>
struct SharedGroup {
  static constexpr int kStride = kHeadDim + 4;  // spreads the rows of a store over the banks
  float acc[kMmaPairs][kStride];
  float m[kMmaPairs];
  float l[kMmaPairs];

  uint4 p[kGroupTiles][kQuarters][32];     // operand A of a quarter's step, by lane
  float4 part[kGroupTiles][2][32];         // of l, by lane, for pairs quad and quad + 8
  float4 largest[kGroupTiles][kMmaPairs];  // the largest score of each quarter
};
/// Element i of four floats.
__device__ inline float& element_of(float4& four, int i) { return (&four.x)[i]; }

/// First step, all tiles at once: this warp's quarter of the scores, and the largest of them. Pair
/// quad + 8 h sees the tile's keys before[h] .. visible[h] - 1, h < halves. If no pair sees a key
/// of the tile, it is not `active`.
template <int kHeadDim, class Share>
__device__ inline void score_quarter(const Share& share, const QueryRows<kHeadDim>& q,
                                     const int (&before)[2], const int (&visible)[2], int halves,
                                     bool active, QuarterScores& s, SharedGroup<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quarter = quarter_of_warp();
#pragma unroll
  for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
    if (!active) break;
    score_step(s[0], q[i], share.k_part(0, i));
    score_step(s[1], q[i], share.k_part(1, i));
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (h >= halves) break;
    hide_keys(s, h, before[h] - quarter * kQuarterTokens, lane % 4);
    const int here = visible[h] - quarter * kQuarterTokens;
    const float largest = quad_max(lane_max(s, h, here, lane % 4));
    if (lane % 4 == 0) {
      element_of(shared.largest[tile_of_warp()][lane / 4 + 8 * h], quarter) = largest;
    }
  }
}

/// move_m() for a pair and tile i of the group, of which shared.largest has the scores.
template <int kHeadDim>
__device__ inline float move_m(float& m, const SharedGroup<kHeadDim>& shared, int i, int pair) {
  const float4 of = shared.largest[i][pair];
  const float largest = fmaxf(fmaxf(of.x, of.y), fmaxf(of.z, of.w));
  return move_m(m, largest * score_scale<kHeadDim>());
}

/// Second step, all tiles at once: this quarter's part of l, and its P as operand A. m is followed
/// up to this tile, which multiplies the sums of the tiles before by factor[h].
template <int kHeadDim>
__device__ inline void softmax_quarter(const int (&visible)[2], int halves, QuarterScores& s,
                                       float (&factor)[2], SharedGroup<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tile = tile_of_warp(), quarter = quarter_of_warp();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (h >= halves) break;
    float m = kNoKey;
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      float next = m;
      const float of_tile = move_m(next, shared, i, lane / 4 + 8 * h);
      if (i <= tile) m = next, factor[h] = of_tile;
    }
    const int here = visible[h] - quarter * kQuarterTokens;
    element_of(shared.part[tile][h][lane], quarter) =
        quarter_softmax(s, h, here, lane % 4, score_scale<kHeadDim>(), m);
  }
  uint32_t a[4];
  quarter_operand(s, a);
  shared.p[tile][quarter][lane] = {a[0], a[1], a[2], a[3]};
}

/// m and l of the group, by one warp: the parts of l, tile on top of tile.
template <int kHeadDim>
__device__ inline void sum_parts(int halves, SharedGroup<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (h >= halves) break;
    const int pair = lane / 4 + 8 * h;
    float m = kNoKey, l = 0.0f;
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      const float4 part = shared.part[i][h][lane];
      l = fmaf(l, move_m(m, shared, i, pair), (part.x + part.y) + (part.z + part.w));
    }
    l = quad_sum(l);
    if (lane % 4 != 0) continue;
    shared.m[pair] = m;
    shared.l[pair] = l;
  }
}

/// Third step, tile after tile: acc = acc * factor + P V, this warp's quarter of the elements. The
/// `first` tile of the group finds no acc, and the `last` one hands none on.
template <int kHeadDim, class Share>
__device__ inline void weigh_quarter(const Share& share, const float (&factor)[2], bool first,
                                     bool last, int halves, SharedGroup<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quad = lane / 4;
  const int t = lane % 4;
  const int tile = tile_of_warp(), quarter = quarter_of_warp();
  // This lane's columns of element i of the steps' results: neighbours in a row.
  struct alignas(Share::kColumns % 4 == 0 ? 16 : 4) Columns {
    float x[Share::kColumns];
  };
  const auto element = [&](int i) {
    return Share::kWidth * quarter + (2 * t + i % 2) * Share::kColumns;
  };
  const auto place = [&](int i) {  // up to 2 past the row: padding
    return reinterpret_cast<Columns*>(&shared.acc[quad + i / 2 * 8][element(i)]);
  };
  uint4 p[kQuarters];
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) p[i] = shared.p[tile][i][lane];
  float acc[Share::kColumns][4] = {};
  if (!first) {
    sync_two_warps(kQuarters * tile + quarter);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i / 2 >= halves || element(i) >= kHeadDim) continue;
      const Columns before = *place(i);
#pragma unroll
      for (int j = 0; j < Share::kColumns; ++j) acc[j][i] = before.x[j] * factor[i / 2];
    }
  }
  // For each key: acc[pair][e] += P[pair][key] * V[key][e].
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
    for (int j = 0; j < Share::kColumns; ++j) {
      mma_step(acc[j], p[i].x, p[i].y, p[i].z, p[i].w, share.v_pair(i, 0, j),
               share.v_pair(i, 1, j));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i / 2 >= halves || element(i) >= kHeadDim) continue;
    Columns sums;
#pragma unroll
    for (int j = 0; j < Share::kColumns; ++j) sums.x[j] = acc[j][i];
    *place(i) = sums;
  }
  if (!last) sync_two_warps(kQuarters * (tile + 1) + quarter);
}

/// The group's tiles begin .. end - 1, four warps each; all threads of the CTA call it. q: the
/// queries of pairs quad and quad + 8; halves: 1 if no pair quad + 8 exists. before and visible are
/// counted from the first key of this warp's tile.
template <int kHeadDim, class Share>
__device__ inline void attend_to_group(const Share& share, const QueryRows<kHeadDim>& q,
                                       const int (&before)[2], const int (&visible)[2], int begin,
                                       int end, int halves, SharedGroup<kHeadDim>& shared) {
  const int tile = tile_of_warp();
  const bool active = tile >= begin && tile < end;
  QuarterScores s = {};
  float factor[2];
  score_quarter<kHeadDim>(share, q, before, visible, halves, active, s, shared);
  __syncthreads();
  softmax_quarter<kHeadDim>(visible, halves, s, factor, shared);
  __syncthreads();
  if (tile == end - 1 && quarter_of_warp() == 0) sum_parts<kHeadDim>(halves, shared);
  if (active)
    weigh_quarter<kHeadDim>(share, factor, tile == begin, tile == end - 1, halves, shared);
  __syncthreads();
}

}  // namespace kv::attention
