#pragma once

// The memory of run_queries.cuh: the slots that K and V pass through, in bf16 or in FP8, and the
// workspace for partial results.

#include "kernels/attention/state.cuh"
#include "kernels/hopper/plan.h"
#include "kernels/hopper/warpgroup.cuh"

namespace kv::hopper {

/// Shape of a CTA that has kHeads KV heads.
template <int kHeads>
struct RunShape {
  static constexpr int kCopyWarps = kHeads >= 4 ? 4 : 1;
  static constexpr int kThreads = 32 * (kHeads + kCopyWarps);
  static constexpr int kCtas = run_ctas(kHeads);
  /// Copying warps give registers to computing warps, where no warpgroup has both kinds.
  static constexpr bool kGivesRegisters = kHeads >= 4;
  static constexpr int kOfComputing = 184, kOfCopying = 40;
  /// Registers of a thread at launch. They leave room for the CTAs of merge_groups_kernel.
  static constexpr int kRegisters =
      kGivesRegisters ? (kHeads * kOfComputing + kCopyWarps * kOfCopying) / (kHeads + kCopyWarps)
                      : 160;
};

/// Slots for a quarter of a tile of K or V, of kNumHeads heads. TMA writes it in parts: 16 swizzled
/// rows of 128 bytes. In FP8 the slot of K also has the scales of both.
template <int kHeadDim, int kNumHeads, bool kFp8>
struct RunSlots {
  static constexpr bool kHasCodes = kFp8;
  static constexpr int kHeads = kNumHeads;
  static constexpr int kHeadBytes = kHeadDim * (kFp8 ? 1 : 2);
  static constexpr int kParts = kHeads * kHeadBytes / kSwizzledRowBytes;
  static constexpr int kPartBytes = kQuarterTokens * kSwizzledRowBytes;
  static constexpr int kBytes = kParts * kPartBytes;
  static constexpr int kScaleBytes = kFp8 ? kHeads * 2 * kQuarterTokens : 0;
  /// In FP8 both more slots and fewer were slower (docs/attention-measured.md).
  static constexpr int kSlots = 6 * 128 / kHeadDim;
  static_assert(kHeads * kHeadBytes % kSwizzledRowBytes == 0);
  struct alignas(128) SlotScales {
    uint8_t of_head[kHeads][2 * kQuarterTokens];  // [K, V][16]
  };
  alignas(kSwizzleBytes) unsigned char parts[kSlots][kParts][kPartBytes];

  /// A head's first part, and the number of its first piece of 16 bytes there.
  __device__ const unsigned char* of_head(int slot, int head) const {
    return parts[slot][head * kHeadBytes / kSwizzledRowBytes];
  }
  __device__ static int first_piece(int head) { return head * kHeadBytes % kSwizzledRowBytes / 16; }
};

template <int kHeadDim, class Slots>
struct RunShared {
  static constexpr int kSlots = Slots::kSlots, kHeads = Slots::kHeads;
  Slots slots;
  typename Slots::SlotScales scales[Slots::kHasCodes ? kSlots : 1];
  float4 result[kHeadDim / 16][32 * Slots::kHeads];  // TwoPairs::acc, each lane's own
  uint64_t full[kSlots], empty[kSlots];
};

/// The partial results of each sequence and KV head, and counts of finished pieces.
template <int kHeadDim>
struct RunWorkspace {
  unsigned int* counters;  // [num_seqs, num_kv_heads] finished pieces, zero before and after
  PartialGroup<kHeadDim>* partials;  // [num_seqs, num_kv_heads, max_groups]
  int max_groups;
  bool merges_apart;  // all groups are left in `partials`, for merge_groups_kernel
};

#if KV_WARPGROUPS

/// All threads of the CTA call it before any of them uses a slot.
template <class Shared>
__device__ inline void init_barriers(Shared& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shared::kSlots; ++i) {
      init_mbarrier(&shared.full[i], 1);
      init_mbarrier(&shared.empty[i], Shared::kHeads);
    }
    publish_barriers();
  }
  __syncthreads();
}

#endif

}  // namespace kv::hopper
