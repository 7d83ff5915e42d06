#pragma once

// Pairs as the tensor cores' columns, K and V as their tall operand. Eight pairs take half the
// steps that sixteen rows of pairs would. The sums are those of fragments.cuh, and so are the bits.
// Lane 4 quad + t has pairs 2 t and 2 t + 1 (c = 0, 1):
//
//   scores     keys quad and quad + 8 of a quarter: s[c], s[2 + c]
//   output     elements first + 2 i and first + 2 i + 1, first = head_dim / 8 quad: acc[i][c],
//              acc[i][2 + c]

#include "kernels/attention/state.cuh"
#include "kernels/hopper/warpgroup.cuh"

#if KV_WARPGROUPS

namespace kv::hopper {

using namespace attention;

/// m, l and acc of the lane's two pairs after some keys. While a group's tiles add up, l is the
/// part of the lane t of fragments.cuh.
template <int kHeadDim>
struct TwoPairs {
  static constexpr int kSteps = kHeadDim / 16;
  float m[2], l[2];
  float acc[kSteps][4];

  /// Begins a group: no key yet. end() adds up the lanes' parts of l.
  __device__ void begin() {
    m[0] = m[1] = kNoKey;
    l[0] = l[1] = 0.0f;
#pragma unroll
    for (auto& x : acc) x[0] = x[1] = x[2] = x[3] = 0.0f;
  }
  __device__ void end() {
#pragma unroll
    for (float& x : l) {
      x += __shfl_xor_sync(kFullWarp, x, 8);
      x += __shfl_xor_sync(kFullWarp, x, 16);
    }
  }
};

/// One step's tall operand of V from 4 keys' words: elements 2 i and 2 i + 1 of keys 2 t, 2 t + 1,
/// 2 t + 8, 2 t + 9.
__device__ inline void weigh_step(float (&acc)[4], uint32_t k0, uint32_t k1, uint32_t k8,
                                  uint32_t k9, const uint32_t (&p)[2]) {
  mma_step(acc, __byte_perm(k0, k1, 0x5410), __byte_perm(k0, k1, 0x7632),
           __byte_perm(k8, k9, 0x5410), __byte_perm(k8, k9, 0x7632), p[0], p[1]);
}
/// An 8 x 8 matrix of 16-bit elements in a warp's registers, transposed.
__device__ inline uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/// Hides the keys before a pair's first one: they get p = 0, whatever K is. before[c]: number of
/// keys at the tile's front that pair 2 t + c does not see.
__device__ inline void hide_front(float (&s)[kQuarters][4], const int (&before)[2]) {
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      if (kQuarterTokens * i + quad + x / 2 * 8 < before[x % 2]) s[i][x] = -INFINITY;
    }
  }
}

/// Adds a tile's scores to the group's m and l, in the order of fragments.cuh, and makes acc ready
/// for its output. Computes P as operand B of the quarters' steps. visible[c]: number of the tile's
/// keys that pair 2 t + c sees.
template <int kHeadDim>
__device__ inline void softmax_two_pairs(float (&s)[kQuarters][4], const int (&visible)[2],
                                         TwoPairs<kHeadDim>& group, uint32_t (&p)[kQuarters][2]) {
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const float scale = score_scale<kHeadDim>();
  float factor[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int key = kQuarterTokens * i + quad + 8 * h;
        if (key < visible[c]) largest = fmaxf(largest, s[i][2 * h + c]);
      }
    }
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, lanes));
    }
    factor[c] = move_m(group.m[c], largest * scale);
    float part[kQuarters];
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int key = kQuarterTokens * i + quad + 8 * h;
        float& x = s[i][2 * h + c];
        x = key < visible[c] ? exp2_fast(fmaf(x, scale, -group.m[c])) : 0.0f;
      }
      // Neighbouring keys first, then those 8 apart.
      const float low = s[i][c] + __shfl_xor_sync(kFullWarp, s[i][c], 4);
      const float high = s[i][2 + c] + __shfl_xor_sync(kFullWarp, s[i][2 + c], 4);
      part[i] = low + high;
    }
    group.l[c] = fmaf(group.l[c], factor[c], (part[0] + part[1]) + (part[2] + part[3]));
  }
  if (__any_sync(kFullWarp, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (auto& x : group.acc)
      x[0] *= factor[0], x[1] *= factor[1], x[2] *= factor[0], x[3] *= factor[1];
  }
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    p[i][0] = transposed(pack_bf16(s[i][0], s[i][1]));
    p[i][1] = transposed(pack_bf16(s[i][2], s[i][3]));
  }
}

}  // namespace kv::hopper

#endif
