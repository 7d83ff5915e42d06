#pragma once

// m, l and acc: the state of a pair after some of its keys, and how the next keys join it.

#include <cfloat>

#include "kernels/attention/fragments.cuh"

namespace kv::attention {

/// Merges an earlier part a and a later part b: x = a * 2^(m_a - m) + b * 2^(m_b - m).
struct Merge {
  float m;
  float scale_a;
  float scale_b;

  __device__ static Merge of(float m_a, float m_b) {
    const float m = fmaxf(m_a, m_b);
    return {m, exp2_fast(m_a - m), exp2_fast(m_b - m)};
  }
  __device__ float operator()(float a, float b) const { return fmaf(b, scale_b, a * scale_a); }
};

/// m of a group without a visible key yet. It is finite, so that hidden keys get 2^(-inf - m) = 0.
/// Sums of such a group are 0, and merging it changes nothing.
inline constexpr float kNoKey = -FLT_MAX;

/// Moves m to a tile's largest score if that is far above it. Returns the factor of the group's
/// sums: exactly 1 if m stays, 0 if it was kNoKey.
__device__ inline float move_m(float& m, float largest) {
  const float before = m;
  if (largest > before + kLog2MaxWeight) m = largest;
  return exp2_fast(before - m);
}

/// acc / l. A tile of which a pair sees nothing adds zeros, which may make +0 of -0; so there is no
/// -0 in the output.
__device__ inline float quotient(float acc, float inverse_of_l) {
  return fmaf(acc, inverse_of_l, 0.0f);
}

/// The state of a pair after some keys, as one lane holds it: N elements of acc. While a group's
/// tiles add up, l is the lane's part.
template <int N>
struct PairState {
  float m;
  float l;
  float acc[N];

  /// Of a group that begins.
  __device__ void begin() {
    m = kNoKey;
    l = 0.0f;
#pragma unroll
    for (float& x : acc) x = 0.0f;
  }
  /// Appends later keys.
  __device__ void append(const PairState& later) {
    const Merge merge = Merge::of(m, later.m);
    m = merge.m;
    l = merge(l, later.l);
#pragma unroll
    for (int i = 0; i < N; ++i) acc[i] = merge(acc[i], later.acc[i]);
  }
};

/// A group's partial results of 16 pairs in global memory, for the warp or kernel that merges them.
template <int kHeadDim>
struct PartialGroup {
  float acc[kMmaPairs][kHeadDim];
  float m[kMmaPairs];
  float l[kMmaPairs];
};

}  // namespace kv::attention
