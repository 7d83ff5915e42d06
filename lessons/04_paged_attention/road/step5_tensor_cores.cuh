#pragma once

// A warp attends to 16 tokens with tensor cores: the arithmetic of steps 5 and 6.
//
// One instruction, mma.m16n8k16 (kernels/tensor_core.cuh), computes a 16 x 8 result. Its 16 rows
// are the query heads of a KV head; there are at most eight, and rows 8 to 15 are zero. For lane 4
// g + t:
//
//   scores   rows: heads, columns: tokens, summed over head_dim. Lane: head g, tokens 2 t, 2 t + 1
//            of the tile's first eight and of its last eight.
//   output   rows: heads, columns: elements, summed over tokens. The scores lie where this
//            product needs its left operand, so p stays in registers.
//
// Which element is summed in which step is free, as long as both operands agree, and so is which
// element is which column. So a lane loads 16 bytes of a row at once. Of K it loads elements 32 j +
// 8 t .. + 7 of tokens g and g + 8, for two steps of the sum. Of V it loads elements 64 h + 8 g ..
// + 7 of tokens 2 t, 2 t + 1, 2 t + 8, 2 t + 9, for eight columns. It needs nothing but these 16
// pieces.

#include "kernels/tensor_core.cuh"
#include "road.cuh"

namespace lesson04::road {

inline constexpr int kTileTokens = 16;
inline constexpr int kPieces = 16;  // pieces of 16 bytes in each lane

/// Calls take(i, address) for a lane's pieces of the tile: first K's 4 j' + j at token g + 8 j',
/// then V's 8 + 4 h + r. A token past `last` gets the address of `last`.
template <class Take>
__device__ inline void for_each_piece(const Rows& rows, int first, int last, const Take& take) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bf16* row = rows.key(min(first + 8 * i + g, last)) + 8 * t;
#pragma unroll
    for (int j = 0; j < 4; ++j) take(4 * i + j, row + 32 * j);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const bf16* row = rows.value(min(first + r / 2 * 8 + 2 * t + r % 2, last)) + 8 * g;
#pragma unroll
    for (int h = 0; h < 2; ++h) take(8 + 4 * h + r, row + 64 * h);
  }
}

/// Elements n and n + 1 (n even) of two tokens' pieces, as pairs of tokens for two columns.
__device__ inline uint2 transposed(uint32_t a, uint32_t b) {
  return {(a & 0xFFFFu) | b << 16, a >> 16 | (b & 0xFFFF0000u)};
}

__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// The states of a CTA's warps, in shared memory, for the merge.
struct CtaStates {
  float m[kWarps][kMaxGroup];
  float l[kWarps][kMaxGroup];
  float acc[kWarps][kMaxGroup][kHeadDim];
};

/// A warp's online softmax over its tokens so far. Lane 4 g + t has a part of head g.
struct WarpState {
  uint4 q[4];               // elements 32 j + 8 t .. of head g; zero if there is no such head
  float m = -INFINITY;      // the same in the four lanes of a head
  float l = 0.0f;           // sum over the tokens whose scores this lane has
  float acc[2][8][4] = {};  // [h][n]: elements 64 h + 16 t + n and 64 h + 16 t + 8 + n of head g;
                            // the last two are rows 8 to 15

  __device__ WarpState(const PagedAttentionArgs& args, int seq, int kv_head, int group) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    const auto* row = static_cast<const bf16*>(args.q) +
                      head_element(args, seq, kv_head * group + min(g, group - 1)) + 8 * t;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      q[j] = g < group ? *reinterpret_cast<const uint4*>(row + 32 * j) : uint4{0, 0, 0, 0};
    }
  }

  /// Adds the tile's first `visible` tokens (at least one).
  __device__ void attend(const uint4 (&x)[kPieces], int visible) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    float s[2][4] = {};  // [i]: tokens 8 i + 2 t and 8 i + 2 t + 1
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 k = x[4 * i + j];
        kv::mma_step(s[i], q[j].x, 0, q[j].y, 0, k.x, k.y);
        kv::mma_step(s[i], q[j].z, 0, q[j].w, 0, k.z, k.w);
      }
    }
    float largest = m;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = s[i / 2][i % 2];
      const int token = i / 2 * 8 + 2 * t + i % 2;
      score = token < visible ? score * score_scale() : -INFINITY;
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
    const float shrink = __expf(m - largest);  // factor of the sums so far
    m = largest;
    l *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& p = s[i / 2][i % 2];
      p = __expf(p - m);
      l += p;
    }
    add_values(x, pack(s[0][0], s[0][1]), pack(s[1][0], s[1][1]), shrink);
  }

  /// acc = acc * shrink + P V.
  __device__ void add_values(const uint4 (&x)[kPieces], uint32_t p_low, uint32_t p_high,
                             float shrink) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4* v = x + 8 + 4 * h;  // of tokens 2 t, 2 t + 1, 2 t + 8, 2 t + 9
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        const auto word = [n](const uint4& piece) {
          return n == 0 ? piece.x : n == 2 ? piece.y : n == 4 ? piece.z : piece.w;
        };
        const uint2 low = transposed(word(v[0]), word(v[1]));
        const uint2 high = transposed(word(v[2]), word(v[3]));
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[h][n + i / 2][i % 2] *= shrink;
        kv::mma_step(acc[h][n], p_low, 0, p_high, 0, low.x, high.x);
        kv::mma_step(acc[h][n + 1], p_low, 0, p_high, 0, low.y, high.y);
      }
    }
  }

  /// Stores the state in shared memory, where the CTA's threads merge it.
  __device__ void store(CtaStates& all) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    l += __shfl_xor_sync(0xFFFFFFFFu, l, 1);
    l += __shfl_xor_sync(0xFFFFFFFFu, l, 2);
    if (t == 0) all.m[warp][g] = m, all.l[warp][g] = l;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        all.acc[warp][g][64 * h + 16 * t + n] = acc[h][n][0];
        all.acc[warp][g][64 * h + 16 * t + 8 + n] = acc[h][n][1];
      }
    }
  }
};

/// Merges the warps' states of one head, a thread for each element. A warp without tokens has m =
/// -infinity and adds nothing.
__device__ inline void merge_warps(const CtaStates& all, int head, Partial& partial) {
  const int thread = static_cast<int>(threadIdx.x);
  float m = -INFINITY;
  for (int warp = 0; warp < kWarps; ++warp) m = fmaxf(m, all.m[warp][head]);
  float l = 0.0f;
  float acc = 0.0f;
  for (int warp = 0; warp < kWarps; ++warp) {
    const float factor = __expf(all.m[warp][head] - m);
    l = fmaf(all.l[warp][head], factor, l);
    acc = fmaf(all.acc[warp][head][thread], factor, acc);
  }
  partial.acc[thread] = acc;
  if (thread == 0) partial.m = m, partial.l = l;
}

}  // namespace lesson04::road
