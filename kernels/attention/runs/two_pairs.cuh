#pragma once

// Pairs as the tensor cores' columns, K and V as their tall operand: eight pairs take half the
// steps that sixteen rows of pairs would. The sums are those of fragments.cuh, so the bits are,
// too. Lane 4 quad + t has pairs 2 t and 2 t + 1 (c = 0, 1):
//
//   scores     keys quad and quad + 8 of a quarter: s[c], s[2 + c]
//   output     elements first + 2 i and first + 2 i + 1, first = head_dim / 8 quad: acc[i][c],
//              acc[i][2 + c]

#include "kernels/attention/state.cuh"
#include "kernels/warpgroup.cuh"

#if KV_WARPGROUPS

namespace kv::attention {

/// m, l and acc of the lane's two pairs after some keys.
template <int kHeadDim>
struct TwoPairs {
  static constexpr int kSteps = kHeadDim / 16;
  float m[2], l[2];
  float acc[kSteps][4];

  /// Appends later keys to pair c, or starts with them.
  __device__ void append(const TwoPairs& later, int c, bool first) {
    const Merge merge = Merge::of(first ? later.m[c] : m[c], later.m[c]);
    m[c] = merge.m;
    l[c] = first ? later.l[c] : merge(l[c], later.l[c]);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int x = c; x < 4; x += 2) {
        acc[i][x] = first ? later.acc[i][x] : merge(acc[i][x], later.acc[i][x]);
      }
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

}  // namespace kv::attention

#endif
