#pragma once

// The arithmetic contract of attention (contract.h) on the tensor cores. Every CUDA kernel of
// attention is made of these pieces, so all of them give the same bits, for one query or for many.
//
// One instruction does all products: mma.m16n8k16, bf16 in, fp32 out. Its tall operand are 16
// *pairs* (query, head): the heads that share a KV head, query after query. A warp's lane `4 quad +
// t` holds
//   operand A, 16 pairs x 16 k   pairs quad and quad + 8; k-slots 2t, 2t + 1, 2t + 8, 2t + 9
//   operand B, 16 k x 8 columns  column quad; the same k-slots
//   result C,  16 pairs x 8      pairs quad and quad + 8; columns 2t, 2t + 1
//
// Scores   S = Q K^T, k runs over head_dim from zero. Which element sits in which k-slot is free as
//          long as Q and K agree: a lane takes 16 consecutive bytes of a row for two steps
//          (row_fragment).
// Softmax  in base 2: m = max(s) * scale * log2(e), p = 2^(s * scale * log2(e) - m). The tile's 64
// keys
//          are four quarters of 16. l adds fp32 p: lane by lane within a quarter, then the quarters
//          as (0 + 1) + (2 + 3), then the four lanes of the quad.
// Output   acc = P V with P rounded to bf16, k runs over the tile's 64 keys from zero.
// Merges   x = a * 2^(m_a - m) + b * 2^(m_b - m) with one fused multiply-add, earlier part first.
//
// An element of a product depends on its own pair, column and k alone, so who computes it (which
// warp, beside which other pairs) leaves no trace. Keys that a pair does not see have p = 0; where
// no number may be read (past the end of the sequence) V is zero, as 0 * NaN is not.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/contract.h"

namespace kv::attention {

using bf16 = __nv_bfloat16;

inline constexpr int kMmaPairs = 16;                       // rows of the tall operand
inline constexpr int kQuarters = kTileTokens / kMmaPairs;  // quarters of a tile, 16 keys each
inline constexpr int kQuarterTokens = kTileTokens / kQuarters;
inline constexpr float kLog2E = 1.44269504088896340736f;

/// C += A B, one step of 16 along k.
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// 2^x; the result of -inf is 0.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Two floats rounded to bf16, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 packed = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&packed);
}

/// Pieces of a row: 32 elements, two steps of the chain; a last one of 16 elements (head_dim 80) is
/// one step.
template <int kHeadDim>
inline constexpr int kRowPieces = (kHeadDim + 31) / 32;
template <int kHeadDim>
__device__ constexpr bool is_half(int piece) {
  return 32 * (piece + 1) > kHeadDim;
}

/// This lane's elements of piece `i` of a Q or K row: (x, y) are the k-slots (2t, 2t + 1) and
/// (2t + 8, 2t + 9) of the first step, (z, w) of the second.
template <int kHeadDim>
__device__ inline uint4 row_piece(const bf16* row, int i, int t) {
  if (!is_half<kHeadDim>(i)) return *reinterpret_cast<const uint4*>(row + 32 * i + 8 * t);
  const uint2 x = *reinterpret_cast<const uint2*>(row + 32 * i + 4 * t);
  return {x.x, x.y, 0, 0};
}

/// Scores of 16 pairs and 8 keys: one piece further along the chain. q: pieces of the rows of pairs
/// quad and quad + 8; k: of key quad.
template <int kHeadDim>
__device__ inline void mma_piece(float (&c)[4], const uint4 (&q)[2], const uint4& k, int i) {
  mma(c, {q[0].x, q[1].x, q[0].y, q[1].y}, k.x, k.y);
  if (!is_half<kHeadDim>(i)) mma(c, {q[0].z, q[1].z, q[0].w, q[1].w}, k.z, k.w);
}

/// The pairs (query, head) of one sequence and KV head. Pair p is query p / heads_per_kv, and there
/// head p % heads_per_kv of those that share the KV head. The queries are the sequence's last
/// tokens.
struct Pairs {
  int64_t first_element;  // of pair 0 in q and out
  int64_t row_elements;   // num_heads * head_dim
  int heads_per_kv;
  int head_dim;
  int num_rows;  // queries
  int seq_len;   // tokens, the queries' included

  __device__ int count() const { return num_rows * heads_per_kv; }
  /// Where the pair's head is in q and out, both [rows, num_heads, head_dim].
  __device__ int64_t element(int pair) const {
    return first_element + pair / heads_per_kv * row_elements +
           static_cast<int64_t>(pair % heads_per_kv) * head_dim;
  }
  /// How many keys the pair sees: those up to its own token. None if there is no such pair.
  __device__ int num_keys(int pair) const {
    return pair < count() ? seq_len - num_rows + pair / heads_per_kv + 1 : 0;
  }
};

/// What a pass attends with, the same in every lesson. first_row and seq_len: as in the lessons'
/// argument structs; without seq_len a sequence is the rows of this pass.
struct AttentionPass {
  const bf16* q;
  bf16* out;
  const int32_t* first_row;
  const int32_t* seq_len;
  int num_heads;
  int num_kv_heads;
  int head_dim;

  __device__ Pairs pairs(int seq, int kv_head) const {
    const int first = first_row[seq];
    const int num_rows = first_row[seq + 1] - first;
    const int heads_per_kv = num_heads / num_kv_heads;
    const int64_t row_elements = static_cast<int64_t>(num_heads) * head_dim;
    return {.first_element =
                first * row_elements + static_cast<int64_t>(kv_head) * heads_per_kv * head_dim,
            .row_elements = row_elements,
            .heads_per_kv = heads_per_kv,
            .head_dim = head_dim,
            .num_rows = num_rows,
            .seq_len = seq_len != nullptr ? seq_len[seq] : num_rows};
  }
};

/// K and V of one sequence and KV head when the rows of its tokens lie at equal distances. Another
/// layout is another struct with the same two functions.
struct EvenRows {
  const bf16* k;  // row of token 0: [head_dim]
  const bf16* v;  // row of token 0: [head_dim]
  int64_t token_stride;

  __device__ const bf16* k_row(int token) const { return k + token * token_stride; }
  __device__ const bf16* v_row(int token) const { return v + token * token_stride; }
};

/// Scores of 16 pairs and one quarter's keys: s[n][2 h + c] is pair quad + 8 h and the quarter's
/// key 8 n + 2 t + c. Not scaled yet.
using QuarterScores = float[2][4];

/// The largest of this lane's scores of pair `quad + 8 h` that are visible; -inf if none is.
/// `visible` counts from the quarter's first key.
__device__ inline float lane_max(const QuarterScores& s, int h, int visible, int t) {
  float largest = -INFINITY;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (8 * n + 2 * t + c < visible) largest = fmaxf(largest, s[n][2 * h + c]);
    }
  }
  return largest;
}

/// The largest of the four lanes of a quad, in each of them.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
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

/// P of a quarter, rounded to bf16, is operand A of that quarter's step of P V: C's layout, two
/// tiles side by side, is A's.
__device__ inline void quarter_operand(const QuarterScores& p, uint32_t (&a)[4]) {
  a[0] = pack_bf16(p[0][0], p[0][1]);
  a[1] = pack_bf16(p[0][2], p[0][3]);
  a[2] = pack_bf16(p[1][0], p[1][1]);
  a[3] = pack_bf16(p[1][2], p[1][3]);
}

/// l of a tile from the four quarters' parts of the four lanes of a quad.
__device__ inline float tile_sum(float part0, float part1, float part2, float part3) {
  float l = (part0 + part1) + (part2 + part3);
  l += __shfl_xor_sync(0xFFFFFFFFu, l, 1);
  l += __shfl_xor_sync(0xFFFFFFFFu, l, 2);
  return l;
}

/// How an earlier part a and a later part b become one.
struct Merge {
  float m;
  float scale_a;
  float scale_b;

  __device__ Merge(float m_a, float m_b)
      : m(fmaxf(m_a, m_b)), scale_a(exp2_fast(m_a - m)), scale_b(exp2_fast(m_b - m)) {}
  __device__ float operator()(float a, float b) const { return fmaf(b, scale_b, a * scale_a); }
};

/// What scores are multiplied by: 1 / sqrt(head_dim), and log2(e) as the softmax is in base 2.
template <int kHeadDim>
__device__ inline float score_scale() {
  return kLog2E / sqrtf(static_cast<float>(kHeadDim));
}

}  // namespace kv::attention
