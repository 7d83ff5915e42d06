#pragma once

// K and V on their way through the shared memory of run_fp8_queries.cuh.

#include "kernels/attention/runs/run_head.cuh"

namespace kv::attention {

/// Slots for a quarter of a tile and kNumHeads heads, of K with the scales of both, or of V. TMA
/// writes them: 16 rows of 128 bytes, swizzled, for each head, or for each two heads of 64.
template <int kHeadDim, int kNumHeads>
struct Fp8Slots {
  static_assert(kHeadDim == kSwizzledRowBytes || 2 * kHeadDim == kSwizzledRowBytes);
  static constexpr bool kAreFp8 = true;
  static constexpr int kHeads = kNumHeads;
  static constexpr int kHeadsInRow = kSwizzledRowBytes / kHeadDim;
  static constexpr int kRowBytes = kQuarterTokens * kSwizzledRowBytes;
  static constexpr int kBytes = kHeads / kHeadsInRow * kRowBytes;
  static constexpr int kScaleBytes = kHeads * 2 * kQuarterTokens;
  /// More of them were slower, fewer too (README.md).
  static constexpr int kSlots = 6 * kHeadsInRow;
  struct Scales {
    uint32_t of_quarter[kQuarters];  // KeyCodes::scales_of_v
  };
  struct alignas(128) SlotScales {
    uint8_t of_head[kHeads][2 * kQuarterTokens];  // [K, V][16]
  };
  alignas(kSwizzleBytes) unsigned char codes[kSlots][kHeads / kHeadsInRow][kRowBytes];
  SlotScales scales[kSlots];

  __device__ const unsigned char* of_head(int slot, int head) const {
    return codes[slot][head / kHeadsInRow];
  }
  /// The first 16 bytes of a head in a row of 128.
  __device__ static int first_piece(int head) { return head % kHeadsInRow * (kHeadDim / 16); }
  __device__ const uint8_t* scales_of_head(int slot, int head) const {
    return scales[slot].of_head[head];
  }
};

}  // namespace kv::attention
