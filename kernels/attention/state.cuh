#pragma once

// m, l and acc, the state of a pair after some of its keys: how m moves, and how groups are merged.

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

/// m of a group without a visible key yet. It is finite, so that a hidden key, whose score is -inf,
/// gets 2^(-inf - m) = 0. The sums of such a group are 0, and merging it changes nothing.
inline constexpr float kNoKey = -FLT_MAX;

/// Moves m to a tile's largest score if that score is far above m. Returns what the group's sums
/// are to be multiplied by: exactly 1 if m stays, and 0 if m was kNoKey and moves.
__device__ inline float move_m(float& m, float largest) {
  const float before = m;
  if (largest > before + kLog2MaxWeight) m = largest;
  return exp2_fast(before - m);
}

/// acc / l, where an acc of -0 counts as +0. Otherwise it would tell kernels that skip a tile
/// without a visible key from those that add its zeros, because -0 + 0 is +0.
__device__ inline float quotient(float acc, float inverse_of_l) {
  return fmaf(acc, inverse_of_l, 0.0f);
}

/// The state of a pair after some keys, as one lane holds it: N elements of acc. While a group's
/// tiles add up, l is this lane's part of the sum; what is merged has the whole l.
template <int N>
struct PairState {
  float m;
  float l;
  float acc[N];

  /// Begins a group: no key yet.
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

/// A group's m, l and acc of 16 pairs in global memory, for the warp or kernel that merges groups.
template <int kHeadDim>
struct PartialGroup {
  static constexpr int kElements = kHeadDim;
  float acc[kMmaPairs][kHeadDim];
  float m[kMmaPairs];
  float l[kMmaPairs];

  /// For merge_groups_kernel.
  __device__ const float* m_of(int pair) const { return &m[pair]; }
  __device__ const float* l_of(int pair) const { return &l[pair]; }
  __device__ const float* acc_of(int pair, int element) const { return &acc[pair][element]; }
};

}  // namespace kv::attention
