#pragma once

// A warp's share of a tile in FP8 pages, for spread_queries.cuh. Codes and scales are loaded into
// the registers that will hold their bf16 numbers. Most are widened while the kernel's predecessors
// still run; the keys beside this pass's own tokens are widened after the wait. The arithmetic that
// follows is that of bf16, and so are the bits.

#include "kernels/attention/fp8/fp8_rows.cuh"
#include "kernels/attention/fp8/widen.cuh"
#include "kernels/attention/spread/spread_tile.cuh"

namespace kv::attention {

/// Like TileShare. Elements that are not loaded are zero, as codes, as scales and as numbers.
template <int kHeadDim>
struct Fp8Share {
  using Bf16 = TileShare<kHeadDim>;
  static constexpr bool kHasCodes = true;
  static constexpr int kSteps = Bf16::kSteps, kColumns = Bf16::kColumns, kWidth = Bf16::kWidth;

  uint2 k[2][kSteps];  // at first the codes, in x; with the scale, in y of step 0
  /// Keys 2 t + 8 h and the next one. At first the codes of each, then the scale of each; once
  /// widened, element j of both.
  uint32_t v[kQuarters][2][4];

  __device__ const uint2& k_part(int n, int i) const { return k[n][i]; }
  __device__ uint32_t v_pair(int i, int h, int j) const { return v[i][h][j]; }

  /// Loads the codes and scales of tokens begin .. end - 1.
  __device__ void load(const Fp8Rows& rows, int tile_begin, int begin, int end) {
    if (begin >= end || end <= tile_begin || begin >= tile_begin + kTileTokens) return;
    const int t = static_cast<int>(threadIdx.x) % 4;
    load_k(rows, tile_begin + kQuarterTokens * quarter_of_warp(), begin, end);
    const int element = kWidth * quarter_of_warp() + kColumns * (threadIdx.x % 32 / 4);
    if (element >= kHeadDim) return;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int first = tile_begin + kQuarterTokens * i;
      if (first + kQuarterTokens <= begin || first >= end) continue;
      const TokenCodes tokens = rows.at(first);
#pragma unroll
      for (int slot = 0; slot < 4; ++slot) {
        const int at = 2 * t + slot % 2 + slot / 2 * 8;
        if (first + at < begin || first + at >= end) continue;
        v[i][slot / 2][slot % 2] = codes_at(tokens.v + at * rows.stride + element, element);
        v[i][slot / 2][2 + slot % 2] = tokens.scales_of_v[at];
      }
    }
  }

  /// Widens codes to numbers, 8 keys of K and 16 of V at a time, where chosen(begin, end) is true.
  /// Keys are counted from the tile's first one.
  template <class Chosen>
  __device__ void widen(const Chosen& chosen) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int begin = kQuarterTokens * quarter_of_warp() + 8 * n;
      if (!chosen(begin, begin + 8)) continue;
      const uint32_t widening = widening_of(k[n][0].y);
#pragma unroll
      for (uint2& part : k[n]) {
        part = {widen_pair<0>(part.x, widening), widen_pair<1>(part.x, widening)};
      }
    }
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      if (!chosen(kQuarterTokens * i, kQuarterTokens * (i + 1))) continue;
#pragma unroll
      for (auto& words : v[i]) {
        const uint32_t a = words[0], b = words[1];
        const uint32_t widening = widening_of_two(words[2] | words[3] << 8);
        words[0] = widen_two_keys<0>(a, b, widening);
        if constexpr (kColumns > 1) words[1] = widen_two_keys<1>(a, b, widening);
        if constexpr (kColumns > 2) words[2] = widen_two_keys<2>(a, b, widening);
        if constexpr (kColumns > 3) words[3] = widen_two_keys<3>(a, b, widening);
      }
    }
  }

 private:
  /// K of the 16 tokens from `first` on.
  __device__ void load_k(const Fp8Rows& rows, int first, int begin, int end) {
    if (first + kQuarterTokens <= begin || first >= end) return;
    const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane / 4, t = lane % 4;
    const TokenCodes tokens = rows.at(first);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int at = 8 * n + quad;
      if (first + at < begin || first + at >= end) continue;
      const uint8_t* const row = tokens.k + at * rows.stride;
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        k[n][i].x = *reinterpret_cast<const uint32_t*>(row + 16 * i + 4 * t);
      }
      k[n][0].y = tokens.scales_of_k[at];
    }
  }
  /// A key's kColumns codes from `element` on.
  __device__ static uint32_t codes_at(const uint8_t* codes, int element) {
    if constexpr (kColumns == 4) {
      return *reinterpret_cast<const uint32_t*>(codes);
    } else if constexpr (kColumns == 2) {
      return *reinterpret_cast<const uint16_t*>(codes);
    } else {
      uint32_t word = 0;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (element + j < kHeadDim) word |= static_cast<uint32_t>(codes[j]) << 8 * j;
      }
      return word;
    }
  }
};

template <int kHeadDim>
__device__ inline Fp8Share<kHeadDim> share_of(const Fp8Rows&) {
  return {};
}

}  // namespace kv::attention
