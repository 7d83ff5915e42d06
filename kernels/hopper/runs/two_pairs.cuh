#pragma once

// Pairs as the tensor cores' columns, K and V as their tall operand. Eight pairs take half the
// steps that sixteen rows of pairs would. The sums are those of fragments.cuh, and so are the bits.
// Lane 4 quad + t has pairs 2 t and 2 t + 1 (c = 0, 1):
//
//   scores     keys quad and quad + 8 of a quarter: s[c], s[2 + c]
//   output     two elements of each 16, which element_of() names: acc[i][c], acc[i][2 + c]

#include "kernels/attention/state.cuh"
#include "kernels/hopper/warpgroup.cuh"

namespace kv::hopper {

using namespace attention;

/// The state of eight pairs after some groups, in shared or global memory.
template <int kHeadDim, bool kCodes>
struct RunPartial {
  static constexpr int kElements = kHeadDim;
  struct Couple {                  // pairs 2 t and 2 t + 1
    float4 sums;                   // TwoPairs::sums()
    float4 unused;                 // so that in shared memory the t of a quad have different banks
    float4 acc[kHeadDim / 16][8];  // [i][quad]: TwoPairs::four(i)
  };
  Couple of[4];

  /// For merge_groups_kernel.
  __device__ const float* m_of(int pair) const { return &of[pair / 2].sums.x + pair % 2; }
  __device__ const float* l_of(int pair) const { return m_of(pair) + 2; }
  __device__ const float* acc_of(int pair, int element) const {
    const int e = element % 16, quad = kCodes ? e / 2 : e % 8, half = kCodes ? e % 2 : e / 8;
    return &of[pair / 2].acc[element / 16][quad].x + 2 * half + pair % 2;
  }
};

#if KV_WARPGROUPS

/// m, l and acc of two pairs after some keys: two elements of each of kSteps 16. While a group's
/// tiles add up, l is the part of the lane t of fragments.cuh.
template <int kSteps>
struct TwoPairs {
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
  /// In memory: m, m, l and l, and acc[i].
  __device__ float4 sums() const { return {m[0], m[1], l[0], l[1]}; }
  __device__ float4 four(int i) const { return {acc[i][0], acc[i][1], acc[i][2], acc[i][3]}; }
  __device__ void set_sums(const float4& x) { m[0] = x.x, m[1] = x.y, l[0] = x.z, l[1] = x.w; }
  __device__ void set_four(int i, const float4& x) {
    acc[i][0] = x.x, acc[i][1] = x.y, acc[i][2] = x.z, acc[i][3] = x.w;
  }
  /// Appends later keys.
  __device__ void append(const TwoPairs& later) {
    const Merge merge[2] = {Merge::of(m[0], later.m[0]), Merge::of(m[1], later.m[1])};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      m[c] = merge[c].m;
      l[c] = merge[c](l[c], later.l[c]);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int x = 0; x < 4; ++x) acc[i][x] = merge[x % 2](acc[i][x], later.acc[i][x]);
    }
  }
};

/// The element of lane 4 quad + t in acc[i][2 * half] and acc[i][2 * half + 1]. ldmatrix hands out
/// transposed V by 16 bits, which are one element or two codes.
template <bool kCodes>
__device__ inline int element_of(int i, int half, int quad) {
  return 16 * i + (kCodes ? 2 * quad + half : 8 * half + quad);
}

/// An 8 x 8 matrix of 16-bit elements in a warp's registers, transposed.
__device__ inline uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/// A mask over two keys' 16 bits, `key`'s in the lower half: ones if a key is one of begin ..
/// end - 1.
__device__ inline uint32_t mask_of_keys(int key, int begin, int end) {
  return (key >= begin && key < end ? 0xFFFFu : 0) |
         (key + 1 >= begin && key + 1 < end ? 0xFFFF0000u : 0);
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
                                         TwoPairs<kHeadDim / 16>& group,
                                         uint32_t (&p)[kQuarters][2]) {
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

#endif

}  // namespace kv::hopper
