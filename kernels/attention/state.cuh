#pragma once

// m, l and acc: the state of a pair after some of its keys, and how the next keys join it.

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

/// The state of a pair after some keys, as one lane holds it: N elements of acc.
template <int N>
struct PairState {
  float m;
  float l;
  float acc[N];

  /// Appends later keys.
  __device__ void append(const PairState& later) { append(later, Merge::of(m, later.m)); }
  __device__ void append(const PairState& later, const Merge& merge) {
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
