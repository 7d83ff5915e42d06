#pragma once

// A quarter of a tile in FP8, of one KV head, as operands of the tensor cores. The warp's lanes
// hold pairs as in two_pairs.cuh. The operands are the bf16 numbers that the codes stand for, so
// the bits are those of bf16 over these numbers.
//
// TMA has written the codes as 16 swizzled rows of 128 bytes (kSwizzledRowBytes). A row holds two
// heads of 64; the second one begins at piece 4.
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

  /// scales: [K, V][16].
  __device__ KeyCodes(const unsigned char* rows, int first_piece, const uint8_t* scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
    const unsigned char* const row = rows + lane % 16 * kSwizzledRowBytes;
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {  // ldmatrix gives lane 4 quad + t four codes of its rows
      uint32_t words[4];
      load_matrices(words, row + ((first_piece + i + lane / 16) ^ lane % 8) * 16);
      a[i] = words[0];
      b[i] = words[1];
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

/// A quarter's V: kHeadDim / 8 elements of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
template <int kHeadDim>
struct ValueCodes {
  static constexpr int kWords = kHeadDim / 32;
  struct alignas(4 * kWords) Words {
    uint32_t x[kWords];
  };
  Words keys[4];

  __device__ ValueCodes(const unsigned char* rows, int first_piece) {
    const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
    const int piece = first_piece + quad * kWords / 4, part = quad * kWords % 4 * 4;
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int key = 2 * t + x % 2 + x / 2 * 8;
      keys[x] = *reinterpret_cast<const Words*>(rows + key * kSwizzledRowBytes +
                                                (piece ^ key % 8) * 16 + part);
    }
  }
  __device__ uint32_t loaded() const {
    return keys[0].x[0] ^ keys[1].x[0] ^ keys[2].x[0] ^ keys[3].x[0];
  }
};

/// One step of P V: elements kIndex and kIndex + 1 of the four keys' words.
template <int kIndex>
__device__ inline void weigh_word(float (&acc)[4], uint32_t k0, uint32_t k1, uint32_t k8,
                                  uint32_t k9, const uint32_t (&widenings)[2],
                                  const uint32_t (&p)[2]) {
  mma_step(acc, widen_two_keys<kIndex>(k0, k1, widenings[0]),
           widen_two_keys<kIndex + 1>(k0, k1, widenings[0]),
           widen_two_keys<kIndex>(k8, k9, widenings[1]),
           widen_two_keys<kIndex + 1>(k8, k9, widenings[1]), p[0], p[1]);
}

/// Adds P V of a quarter, of whose keys begin .. end - 1 count. `scales`: KeyCodes::scales_of_v. p:
/// operand B of the step.
template <int kHeadDim>
__device__ inline void weigh_quarter(const ValueCodes<kHeadDim>& v, uint32_t scales, int begin,
                                     int end, const uint32_t (&p)[2], TwoPairs<kHeadDim>& group) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  uint32_t widenings[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = 2 * t + 8 * h;
    widenings[h] = widening_of_two(scales >> 16 * h);
    // Other keys get factor 0, because 0 * NaN would be NaN whatever their scales are.
    if (key + 1 >= end) widenings[h] = key >= end ? 0 : widenings[h] & 0xFFFF;
    if (key < begin) widenings[h] = key + 1 < begin ? 0 : widenings[h] & 0xFFFF0000;
  }
#pragma unroll
  for (int j = 0; j < ValueCodes<kHeadDim>::kWords; ++j) {
    const auto word = [&](int x) { return v.keys[x].x[j]; };
    weigh_word<0>(group.acc[2 * j], word(0), word(1), word(2), word(3), widenings, p);
    weigh_word<2>(group.acc[2 * j + 1], word(0), word(1), word(2), word(3), widenings, p);
  }
}

}  // namespace kv::hopper

#endif
