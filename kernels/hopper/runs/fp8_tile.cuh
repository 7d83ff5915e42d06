#pragma once

// A quarter of a tile in FP8, of one KV head, as operands of the tensor cores. The warp's lanes
// hold pairs as in two_pairs.cuh. The operands are the bf16 numbers that the codes stand for, so
// the bits are those of bf16 over these numbers.
//
// A slot may be given back when its loads are complete. loaded() combines a word of each load: the
// load's other words arrive with it.

#include "kernels/attention/fp8/widen.cuh"
#include "kernels/hopper/runs/two_pairs.cuh"

#if KV_WARPGROUPS

namespace kv::hopper {

/// A quarter's K: the codes of keys quad and quad + 8, and the scales of K and V.
template <int kHeadDim>
struct KeyCodes {
  static constexpr int kSteps = kRowSteps<kHeadDim>;
  uint32_t a[kSteps], b[kSteps];  // keys quad and quad + 8: codes 4 t .. 4 t + 3 of each step
  uint32_t scale_a, scale_b;
  uint32_t scales_of_v;  // keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9

  /// at(row, piece): the piece in shared memory. scales: [K, V][16].
  template <class At>
  __device__ KeyCodes(const At& at, const uint8_t* scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {  // ldmatrix gives lane 4 quad + t four codes of its rows
      uint32_t words[4];
      load_matrices(words, at(lane % 16, min(i + lane / 16, kSteps - 1)));
      a[i] = words[0];
      b[i] = words[1];
      if (i + 1 == kSteps) break;
      a[i + 1] = words[2];
      b[i + 1] = words[3];
    }
    scale_a = scales[quad];
    scale_b = scales[quad + 8];
    const auto* of_v = reinterpret_cast<const uint16_t*>(scales + kQuarterTokens);
    scales_of_v = of_v[t] | static_cast<uint32_t>(of_v[t + 4]) << 16;
  }
  __device__ uint32_t loaded() const {
    uint32_t x = scale_a ^ scale_b ^ scales_of_v;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) x ^= a[i] ^ b[i];
    return x;
  }
  /// Adds one step to the scores of the quarter's keys. q: of pair quad.
  __device__ void multiply(int i, const uint2& q, float (&s)[4]) const {
    const uint32_t of_a = widening_of(scale_a), of_b = widening_of(scale_b);
    mma_step(s, widen_pair<0>(a[i], of_a), widen_pair<0>(b[i], of_b), widen_pair<1>(a[i], of_a),
             widen_pair<1>(b[i], of_b), q.x, q.y);
  }
};

/// A quarter's V: codes 2 quad and 2 quad + 1 of each 16, of two keys in a word.
template <int kHeadDim>
struct ValueCodes {
  static constexpr int kSteps = kRowSteps<kHeadDim>;
  uint32_t low[kSteps], high[kSteps];  // keys 2 t and 2 t + 1; keys 2 t + 8 and 2 t + 9

  /// at: KeyCodes's.
  template <class At>
  __device__ explicit ValueCodes(const At& at) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {
      uint32_t words[4];
      load_transposed(words, shared_address(at(lane % 16, min(i + lane / 16, kSteps - 1))));
      low[i] = words[0];
      high[i] = words[1];
      if (i + 1 == kSteps) break;
      low[i + 1] = words[2];
      high[i + 1] = words[3];
    }
  }
  __device__ uint32_t loaded() const {
    uint32_t x = 0;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) x ^= low[i];
    return x;
  }
};

/// Adds P V of a quarter, of whose keys begin .. end - 1 count. `scales`: KeyCodes::scales_of_v. p:
/// operand B of the step.
template <int kHeadDim>
__device__ inline void weigh_codes(const ValueCodes<kHeadDim>& v, uint32_t scales, int begin,
                                   int end, const uint32_t (&p)[2],
                                   TwoPairs<kRowSteps<kHeadDim>>& group) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  uint32_t widenings[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // Other keys get factor 0, because 0 * NaN would be NaN whatever their scales are.
    widenings[h] = widening_of_two(scales >> 16 * h) & mask_of_keys(2 * t + 8 * h, begin, end);
  }
#pragma unroll
  for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
    mma_step(group.acc[i], widen_both<0>(v.low[i], widenings[0]),
             widen_both<1>(v.low[i], widenings[0]), widen_both<0>(v.high[i], widenings[1]),
             widen_both<1>(v.high[i], widenings[1]), p[0], p[1]);
  }
}

}  // namespace kv::hopper

#endif
