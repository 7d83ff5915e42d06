#pragma once

// A quarter of a tile in FP8, of one KV head, as the tensor cores want it. A warp has the pairs as
// two_pairs.cuh says. The operands are the bf16 numbers that the codes stand for, so the bits are
// those of run_head.cuh over these numbers.
//
// The codes lie as TMA writes them: 16 rows of 128 bytes, swizzled (kSwizzledRowBytes).

#include "kernels/attention/fp8/widen.cuh"
#include "kernels/attention/runs/two_pairs.cuh"

#if KV_WARPGROUPS

namespace kv::attention {

/// Scores of a quarter's keys. `rows`: its 16 rows of K; scales: [K, V][16]; q: of pair quad; s: as
/// in two_pairs.cuh. Calls release(x) when all is in registers, on which x depends. Returns V's
/// scales for keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
template <int kHeadDim, class Release>
__device__ inline uint32_t score_quarter(const unsigned char* rows, const uint8_t* scales,
                                         const uint4 (&q)[kRowPieces<kHeadDim>], float (&s)[4],
                                         const Release& release) {
  const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
  const unsigned char* const row = rows + quad * kSwizzledRowBytes + t % 2 * 8;
  uint2 a[kRowPieces<kHeadDim>], b[kRowPieces<kHeadDim>];  // of keys quad and quad + 8
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
    const int at = ((2 * i + t / 2) ^ quad) * 16;
    a[i] = *reinterpret_cast<const uint2*>(row + at);
    b[i] = *reinterpret_cast<const uint2*>(row + 8 * kSwizzledRowBytes + at);
  }
  const uint32_t scale_a = scales[quad], scale_b = scales[quad + 8];
  const auto* of_v = reinterpret_cast<const uint16_t*>(scales + kQuarterTokens);
  const uint32_t scales_of_v = of_v[t] | static_cast<uint32_t>(of_v[t + 4]) << 16;
  uint32_t loaded = scale_a ^ scale_b ^ scales_of_v;
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) loaded ^= a[i].x ^ a[i].y ^ b[i].x ^ b[i].y;
  release(loaded);
  const uint32_t of_a = widening_of(scale_a), of_b = widening_of(scale_b);
  s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
    mma_step(s, widen_pair<0>(a[i].x, of_a), widen_pair<0>(b[i].x, of_b),
             widen_pair<1>(a[i].x, of_a), widen_pair<1>(b[i].x, of_b), q[i].x, q[i].y);
    mma_step(s, widen_pair<0>(a[i].y, of_a), widen_pair<0>(b[i].y, of_b),
             widen_pair<1>(a[i].y, of_a), widen_pair<1>(b[i].y, of_b), q[i].z, q[i].w);
  }
  return scales_of_v;
}

/// One step of P V: elements kIndex and kIndex + 1 of the words of keys 2 t, 2 t + 1, 2 t + 8 and
/// 2 t + 9.
template <int kIndex>
__device__ inline void weigh_word(float (&acc)[4], uint32_t k0, uint32_t k1, uint32_t k8,
                                  uint32_t k9, const uint32_t (&widenings)[2],
                                  const uint32_t (&p)[2]) {
  mma_step(acc, widen_two_keys<kIndex>(k0, k1, widenings[0]),
           widen_two_keys<kIndex + 1>(k0, k1, widenings[0]),
           widen_two_keys<kIndex>(k8, k9, widenings[1]),
           widen_two_keys<kIndex + 1>(k8, k9, widenings[1]), p[0], p[1]);
}

/// Adds P V of a quarter's keys, of which num_keys exist. `scales`: of score_quarter(); p: operand
/// B of the step; release: as for score_quarter().
template <int kHeadDim, class Release>
__device__ inline void weigh_quarter(const unsigned char* rows, uint32_t scales, int num_keys,
                                     const uint32_t (&p)[2], TwoPairs<kHeadDim>& tile,
                                     const Release& release) {
  const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
  uint4 v[4];  // keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const int key = 2 * t + x % 2 + x / 2 * 8;
    v[x] = *reinterpret_cast<const uint4*>(rows + key * kSwizzledRowBytes + (quad ^ key % 8) * 16);
  }
  uint32_t loaded = 0;
#pragma unroll
  for (const uint4& x : v) loaded ^= x.x ^ x.y ^ x.z ^ x.w;
  release(loaded);
  uint32_t widenings[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = 2 * t + 8 * h;
    widenings[h] = widening_of_two(scales >> 16 * h);
    // Keys that do not exist count as zero, whatever is in their place: 0 * NaN would be NaN.
    if (key + 1 >= num_keys) widenings[h] = key >= num_keys ? 0 : widenings[h] & 0xFFFF;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const auto word = [&](int x) {
      return j == 0 ? v[x].x : j == 1 ? v[x].y : j == 2 ? v[x].z : v[x].w;
    };
    weigh_word<0>(tile.acc[2 * j], word(0), word(1), word(2), word(3), widenings, p);
    weigh_word<2>(tile.acc[2 * j + 1], word(0), word(1), word(2), word(3), widenings, p);
  }
}

}  // namespace kv::attention

#endif
