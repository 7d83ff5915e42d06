#pragma once

// The arithmetic contract of attention (contract.h) on the tensor cores. Every fast kernel is made
// of these pieces, so all of them give the same bits, for one query or for many.
//
// One instruction does all products: mma.m16n8k16, bf16 in, fp32 out. The rows of its tall operand
// are 16 *pairs* (pairs.cuh). A warp's lane `4 quad + t` holds
//
// clang-format off
//   operand A, 16 pairs x 16 k     pairs quad and quad + 8; k-slots 2t, 2t + 1, 2t + 8, 2t + 9
//   operand B, 16 k x 8 columns    column quad; the same k-slots
//   result C,  16 pairs x 8        pairs quad and quad + 8; columns 2t, 2t + 1
//
//   scores     S = Q K^T, k runs over head_dim from zero, 16 neighbours a step. Which of them sits
//              in which k-slot is free as long as Q and K agree: a lane takes 8 consecutive bytes
//              of a row (row_part), or what ldmatrix gives it (query_part).
//   softmax    in base 2: scores are s * scale * log2(e), p = 2^(score - m). A tile's 64 keys are
//              four quarters of 16. l adds p in fp32, lane by lane: within a quarter, then the
//              quarters as (0 + 1) + (2 + 3), then tile by tile. The four lanes of a quad are added
//              up when the group ends.
//   output     acc += P V with P rounded to bf16, k runs over the group's keys, 16 a step. Before a
//              tile that moves m, l and acc are multiplied by 2^(old m - new m) (state.cuh).
//   merge      x = a * 2^(m_a - m) + b * 2^(m_b - m), with one fused multiply-add, the earlier part
//              first (state.cuh).
// clang-format on
//
// An element of a product depends only on its own pair, column and k. So neither the warp that
// computes it nor the pairs beside it change a bit. Keys that a pair does not see have p = 0. Where
// V must not be read (past the end of the sequence, before the window), it is zero or another key's
// V, because 0 * NaN is NaN.

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

#include "kernels/attention/contract.h"
#include "kernels/attention/pairs.cuh"
#include "kernels/tensor_core.cuh"

namespace kv::attention {

inline constexpr int kMmaPairs = 16;                       // rows of the tall operand
inline constexpr int kQuarters = kTileTokens / kMmaPairs;  // quarters of a tile, 16 keys each
inline constexpr int kQuarterTokens = kTileTokens / kQuarters;
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;

/// Factor of the scores: 1 / sqrt(head_dim), and log2(e) because the softmax is in base 2.
template <int kHeadDim>
__device__ inline float score_scale() {
  return kLog2E / sqrtf(static_cast<float>(kHeadDim));
}

/// Two floats rounded to bf16, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 packed = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&packed);
}

__device__ inline uint32_t pack_halves(uint16_t low, uint16_t high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

/// Steps of a score.
template <int kHeadDim>
inline constexpr int kRowSteps = kHeadDim / 16;

/// This lane's elements of step `i` of a Q or K row: k-slots 2t and 2t + 1 in x, 2t + 8 and 2t + 9
/// in y. They hold elements 4t .. 4t + 3.
__device__ inline uint2 row_part(const bf16* row, int i, int t) {
  return *reinterpret_cast<const uint2*>(row + 16 * i + 4 * t);
}
/// The same where ldmatrix loads K: each k-slot holds the element of its number.
__device__ inline uint2 query_part(const bf16* row, int i, int t) {
  const auto* two = reinterpret_cast<const uint32_t*>(row + 16 * i + 2 * t);
  return {two[0], two[4]};
}

/// The query rows of pairs quad and quad + 8, this lane's elements of all steps.
template <int kHeadDim>
using QueryRows = uint2[kRowSteps<kHeadDim>][2];

/// For 16 pairs, 8 keys and the 16 elements e of a step: s[pair][key] += Q[pair][e] * K[key][e].
/// This lane's q: of pairs quad and quad + 8; k: of key quad.
__device__ inline void score_step(float (&c)[4], const uint2 (&q)[2], const uint2& k) {
  mma_step(c, q[0].x, q[1].x, q[0].y, q[1].y, k.x, k.y);
}

/// Scores of 16 pairs and one quarter's keys, not scaled yet: s[n][2 h + c] belongs to pair quad +
/// 8 h and the quarter's key 8 n + 2 t + c.
using QuarterScores = float[2][4];

/// Hides the keys before `before`, counted from the quarter's first one, so that they get p = 0.
__device__ inline void hide_keys(QuarterScores& s, int h, int before, int t) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (8 * n + 2 * t + c < before) s[n][2 * h + c] = -INFINITY;
    }
  }
}

/// The largest of this lane's visible scores of pair `quad + 8 h`; -inf if none is visible.
/// `visible` counts from the quarter's first key.
__device__ inline float lane_max(const QuarterScores& s, int h, int visible, int t) {
  const auto score = [&](int n, int c) {
    return 8 * n + 2 * t + c < visible ? s[n][2 * h + c] : -INFINITY;
  };
  return fmaxf(fmaxf(score(0, 0), score(0, 1)), fmaxf(score(1, 0), score(1, 1)));
}

/// The largest of the four lanes' x in a quad, returned in each of them.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}

/// Turns the scores of pair `quad + 8 h` into p = 2^(s * scale - m), 0 where not visible. Returns
/// this lane's part of l.
__device__ inline float quarter_softmax(QuarterScores& s, int h, int visible, int t, float scale,
                                        float m) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float& x = s[n][2 * h + c];
      x = 8 * n + 2 * t + c < visible ? exp2_fast(fmaf(x, scale, -m)) : 0.0f;
    }
  }
  return (s[0][2 * h] + s[0][2 * h + 1]) + (s[1][2 * h] + s[1][2 * h + 1]);
}

/// The sum of the four lanes' x in a quad, returned in each of them.
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kFullWarp, x, 1);
  return x + __shfl_xor_sync(kFullWarp, x, 2);
}

/// P of a quarter, rounded to bf16, is operand A of that quarter's step of P V: two results C side
/// by side, 16 keys, have the layout of A.
__device__ inline void quarter_operand(const QuarterScores& p, uint32_t (&a)[4]) {
  a[0] = pack_bf16(p[0][0], p[0][1]);
  a[1] = pack_bf16(p[0][2], p[0][3]);
  a[2] = pack_bf16(p[1][0], p[1][1]);
  a[3] = pack_bf16(p[1][2], p[1][3]);
}

}  // namespace kv::attention
