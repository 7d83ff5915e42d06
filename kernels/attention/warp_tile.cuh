#pragma once

// One tile by one warp, K and V in shared memory: what many_queries.cuh and stream_queries.cuh have
// in common. Their tiles have different layouts, but each tile has
//
//   k_piece(row, i), v_piece(row, i)   the address of piece i of a row, 16 bytes
//   kStrideK, kStrideV                 pieces from a row to the next

#include <cstdint>

#include "kernels/attention/fragments.cuh"
#include "kernels/attention/state.cuh"

namespace kv::attention {

/// A lane's part of one pair's state: elements 8 n + 2 t and 8 n + 2 t + 1 in acc[2 n] and
/// acc[2 n + 1]. The lane has pairs quad + 8 h, h < kHalves; with at most 8 pairs only h = 0.
template <int kHeadDim>
using LaneState = PairState<kHeadDim / 4>;

/// The pairs first + quad + 8 h that a lane has, h < kHalves, and its elements of their queries.
template <int kHeadDim, int kHalves>
struct LanePairs {
  int pair[kHalves];
  int num_keys[kHalves];   // the pair sees keys first_key .. num_keys - 1;
  int first_key[kHalves];  // num_keys is 0 if it does not exist
  uint2 q[kRowSteps<kHeadDim>][2] = {};

  __device__ LanePairs(const Queries& queries, const Pairs& pairs, int first, int last_pair) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      pair[h] = first + lane / 4 + 8 * h;
      num_keys[h] = pairs.num_keys(pair[h]);
      first_key[h] = pairs.first_key(pair[h]);
      // A pair that does not exist takes the last one's query and is not stored.
      const bf16* row = q_row(queries, pairs, min(pair[h], last_pair));
#pragma unroll
      for (int i = 0; i < kRowSteps<kHeadDim>; ++i) q[i][h] = row_part(row, i, lane % 4);
    }
  }
};

/// Scores of the warp's 16 pairs against the tile's 64 keys, quarter by quarter.
template <int kHeadDim, class Tile>
__device__ inline void score_tile(const Tile& tile, const QueryRows<kHeadDim>& q,
                                  QuarterScores (&s)[kQuarters]) {
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (auto& quarter : s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) quarter[i / 4][i % 4] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
    const auto* key = reinterpret_cast<const uint2*>(tile.k_piece(quad, 2 * i + t / 2)) + t % 2;
#pragma unroll
    for (int n = 0; n < kTileTokens / 8; ++n) {
      score_step(s[n / 2][n % 2], q[i], key[2 * 8 * n * Tile::kStrideK]);
    }
  }
}

/// Hides the keys before a pair's first visible one: they get p = 0, whatever K is. before[h]: the
/// number of keys at the tile's front that pair quad + 8 h does not see.
template <int kHalves>
__device__ inline void hide_front(QuarterScores (&s)[kQuarters], const int (&before)[2]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) hide_keys(s[i], h, before[h] - i * kQuarterTokens, t);
  }
}

/// The largest score of pair quad + 8 h among the tile's first `visible` keys.
template <int kHeadDim>
__device__ inline float largest_score(const QuarterScores (&s)[kQuarters], int h, int visible) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  float largest = lane_max(s[0], h, visible, t);
#pragma unroll
  for (int i = 1; i < kQuarters; ++i) {
    largest = fmaxf(largest, lane_max(s[i], h, visible - i * kQuarterTokens, t));
  }
  return quad_max(largest) * score_scale<kHeadDim>();
}
/// Turns the scores of pair quad + 8 h into p = 2^(s * scale - m), 0 where not visible. Returns
/// this lane's part of the sum of p.
template <int kHeadDim>
__device__ inline float softmax_lane(QuarterScores (&s)[kQuarters], int h, int visible, float m) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  float part[kQuarters];
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    part[i] = quarter_softmax(s[i], h, visible - i * kQuarterTokens, t, score_scale<kHeadDim>(), m);
  }
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/// Adds a tile to the groups' l, and moves m first where it must, with l and acc. What is left to
/// do is acc += P V: p gets P as operand A of the quarters' steps. Pair quad + 8 h sees the tile's
/// keys before visible[h].
template <int kHeadDim, int kHalves>
__device__ inline void softmax_tile(QuarterScores (&s)[kQuarters], const int (&visible)[2],
                                    LaneState<kHeadDim> (&group)[kHalves],
                                    uint32_t (&p)[kQuarters][4]) {
  float factor[kHalves];
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    factor[h] = move_m(group[h].m, largest_score<kHeadDim>(s, h, visible[h]));
    group[h].l = fmaf(group[h].l, factor[h], softmax_lane<kHeadDim>(s, h, visible[h], group[h].m));
  }
  if (__any_sync(kFullWarp, factor[0] != 1.0f || factor[kHalves - 1] != 1.0f)) {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (float& x : group[h].acc) x *= factor[h];
    }
  }
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    if (kHalves == 1) s[i][0][2] = s[i][0][3] = s[i][1][2] = s[i][1][3] = 0.0f;
    quarter_operand(s[i], p[i]);
  }
}

/// 16 keys of V, columns 8 n .. 8 n + 15, as operand B of two products: b[0], b[1] and b[2], b[3].
/// `lane_row` is the address of row lane % 16, piece n + lane / 16. So lanes 0-7 and 8-15 give keys
/// 0-7 and 8-15 of eight columns, and the others those of the next eight columns.
__device__ inline void load_v_operands(uint32_t (&b)[4], uint32_t lane_row) {
  load_transposed(b, lane_row);
}

/// Divides a pair's acc by l and stores it.
template <int kHeadDim>
__device__ inline void store_result(const LaneState<kHeadDim>& state, bf16* out) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float inverse = 1.0f / state.l;
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    *reinterpret_cast<uint32_t*>(out + 8 * n + 2 * t) =
        pack_bf16(quotient(state.acc[2 * n], inverse), quotient(state.acc[2 * n + 1], inverse));
  }
}

}  // namespace kv::attention
