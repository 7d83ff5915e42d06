#pragma once

// One tile of 64 keys by the four warps of a decode step. Each warp scores a quarter of the keys;
// then each multiplies P with a quarter of V's elements. K and V go from global memory straight
// into the registers from which the tensor cores read them, all loads at once.

#include "kernels/attention/fragments.cuh"

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

/// Number of this warp's quarter of the tile.
__device__ inline int quarter_of_warp() { return static_cast<int>(threadIdx.x) / 32 % kQuarters; }

/// A warp's share of a tile: K of its quarter's 16 keys, all elements; V of all 64 keys, a quarter
/// of the elements. Elements that are not loaded are zero. K and V in FP8 have an Fp8Share instead.
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

/// Shared by the four warps of a tile; at the end it holds m, l and acc.
template <int kHeadDim>
struct SharedTile {
  static constexpr int kStride = kHeadDim + 4;  // spreads the rows of a store over the banks
  float acc[kMmaPairs][kStride];
  float m[kMmaPairs];
  float l[kMmaPairs];

  uint4 p[kQuarters][32];        // operand A of a quarter's step, by lane
  float part[kQuarters][2][32];  // of l, by lane, for pairs quad and quad + 8
  float quarter_max[kQuarters][kMmaPairs];
};

/// First step: this warp's quarter of the scores, and the largest of them. Pair quad + 8 h sees the
/// tile's keys before[h] .. visible[h] - 1.
template <int kHeadDim, class Share>
__device__ inline void score_quarter(const Share& share, const QueryRows<kHeadDim>& q,
                                     const int (&before)[2], const int (&visible)[2],
                                     QuarterScores& s, SharedTile<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quarter = quarter_of_warp();
#pragma unroll
  for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
    score_step(s[0], q[i], share.k_part(0, i));
    score_step(s[1], q[i], share.k_part(1, i));
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    hide_keys(s, h, before[h] - quarter * kQuarterTokens, lane % 4);
    const int here = visible[h] - quarter * kQuarterTokens;
    const float largest = quad_max(lane_max(s, h, here, lane % 4));
    if (lane % 4 == 0) shared.quarter_max[quarter][lane / 4 + 8 * h] = largest;
  }
}

/// Second step: m of the tile, this quarter's part of l, and its P as operand A.
template <int kHeadDim>
__device__ inline void softmax_quarter(const int (&visible)[2], QuarterScores& s, float (&m)[2],
                                       SharedTile<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quarter = quarter_of_warp();
  const float scale = score_scale<kHeadDim>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      largest = fmaxf(largest, shared.quarter_max[i][lane / 4 + 8 * h]);
    }
    m[h] = largest * scale;
    const int here = visible[h] - quarter * kQuarterTokens;
    shared.part[quarter][h][lane] = quarter_softmax(s, h, here, lane % 4, scale, m[h]);
  }
  uint32_t a[4];
  quarter_operand(s, a);
  shared.p[quarter][lane] = {a[0], a[1], a[2], a[3]};
}

/// Third step: l of the tile, and acc = P V of this warp's quarter of the elements, from zero.
template <int kHeadDim, class Share>
__device__ inline void weigh_quarter(const Share& share, const int (&visible)[2],
                                     const float (&m)[2], SharedTile<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quad = lane / 4;
  const int t = lane % 4;
  const int quarter = quarter_of_warp();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const auto& part = shared.part;
    const float l =
        tile_sum(part[0][h][lane], part[1][h][lane], part[2][h][lane], part[3][h][lane]);
    if (quarter == 0 && t == 0) {
      shared.m[quad + 8 * h] = m[h];
      shared.l[quad + 8 * h] = l;
    }
  }
  float acc[Share::kColumns][4] = {};  // for each key: acc[pair][e] += P[pair][key] * V[key][e]
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    const uint4 p = shared.p[i][lane];
#pragma unroll
    for (int j = 0; j < Share::kColumns; ++j) {
      mma_step(acc[j], p.x, p.y, p.z, p.w, share.v_pair(i, 0, j), share.v_pair(i, 1, j));
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (visible[h] <= 0) continue;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int element = Share::kWidth * quarter + (2 * t + c) * Share::kColumns;
      if (element >= kHeadDim) continue;
      float* out = &shared.acc[quad + 8 * h][element];  // up to 2 past the row: padding
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

/// A tile from scratch, by four warps. q: the queries of pairs quad and quad + 8. It has barriers,
/// so all threads of the CTA must call it; threads whose tile is not `active` do nothing else.
template <int kHeadDim, class Share>
__device__ inline void attend_to_tile_by_four_warps(const Share& share,
                                                    const QueryRows<kHeadDim>& q,
                                                    const int (&before)[2], const int (&visible)[2],
                                                    bool active, SharedTile<kHeadDim>& shared) {
  QuarterScores s = {};
  float m[2];
  if (active) score_quarter<kHeadDim>(share, q, before, visible, s, shared);
  __syncthreads();
  if (active) softmax_quarter<kHeadDim>(visible, s, m, shared);
  __syncthreads();
  if (active) weigh_quarter<kHeadDim>(share, visible, m, shared);
}

}  // namespace kv::attention
