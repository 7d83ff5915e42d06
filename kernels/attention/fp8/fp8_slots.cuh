#pragma once

// The slots of run_fp8_queries.cuh: K and V pass through them in shared memory.

#include "kernels/attention/runs/run_head.cuh"

namespace kv::attention {

/// Slots for a quarter of a tile and kNumHeads heads: K with the scales of both, or V. TMA writes
/// them as 16 swizzled rows of 128 bytes, for each head of 128 or two heads of 64.
template <int kHeadDim, int kNumHeads>
struct Fp8Slots {
  static_assert(kHeadDim == kSwizzledRowBytes || 2 * kHeadDim == kSwizzledRowBytes);
  static constexpr bool kAreFp8 = true;
  static constexpr int kHeads = kNumHeads;
  static constexpr int kHeadsInRow = kSwizzledRowBytes / kHeadDim;
  static constexpr int kRowBytes = kQuarterTokens * kSwizzledRowBytes;
  static constexpr int kBytes = kHeads / kHeadsInRow * kRowBytes;
  static constexpr int kScaleBytes = kHeads * 2 * kQuarterTokens;
  /// Both more slots and fewer were slower (docs/attention-measured.md).
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
  /// The number of a head's first piece of 16 bytes in a row of 128.
  __device__ static int first_piece(int head) { return head % kHeadsInRow * (kHeadDim / 16); }
  __device__ const uint8_t* scales_of_head(int slot, int head) const {
    return scales[slot].of_head[head];
  }
};

}  // namespace kv::attention
