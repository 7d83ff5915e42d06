#pragma once

// K and V on their way through the shared memory of run_fp8_queries.cuh.

#include "kernels/attention/runs/run_head.cuh"

namespace kv::attention {

/// Slots for a quarter of a tile, of K with the scales of both, or of V. TMA writes them: a head's
/// 16 rows lie one after the other, 128 bytes each, swizzled.
template <int kHeadDim>
struct Fp8Slots {
  static_assert(kHeadDim == kSwizzledRowBytes);
  static constexpr bool kAreFp8 = true;
  static constexpr int kHeadBytes = kQuarterTokens * kHeadDim;
  static constexpr int kBytes = kRunHeads * kHeadBytes;
  static constexpr int kScaleBytes = kRunHeads * 2 * kQuarterTokens;
#ifndef FP8_SLOTS
#define FP8_SLOTS 8
#endif
  static constexpr int kSlots = FP8_SLOTS;
  struct Scales {
    uint32_t of_quarter[kQuarters];  // as score_quarter() returns them
  };
  alignas(kSwizzleBytes) unsigned char codes[kSlots][kRunHeads][kHeadBytes];
  alignas(128) uint8_t scales[kSlots][kRunHeads][2 * kQuarterTokens];  // [K, V][16]

  __device__ const unsigned char* of_head(int slot, int head) const { return codes[slot][head]; }
};

}  // namespace kv::attention
