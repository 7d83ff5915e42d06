#pragma once

// The memory of run_queries.cuh: the slots that K and V pass through, in bf16 or in FP8, and the
// workspace for partial results.

#include "kernels/hopper/plan.h"
#include "kernels/hopper/runs/two_pairs.cuh"

namespace kv::hopper {

/// Warps of a CTA that compute, and those that copy, which give them registers. The rest of an SM's
/// registers is room for CTAs of merge_groups_kernel.
inline constexpr int kRunWarps = 8, kRunCopyWarps = 4;
inline constexpr int kRunThreads = 32 * (kRunWarps + kRunCopyWarps);
inline constexpr int kOfComputing = 184, kOfCopying = 40;  // registers of a thread
inline constexpr int kRunRegisters =
    (kRunWarps * kOfComputing + kRunCopyWarps * kOfCopying) / (kRunWarps + kRunCopyWarps);

/// A team's slots for a quarter of a tile of K or V, of kNumHeads heads. TMA writes it in parts: 16
/// swizzled rows of 128 bytes. In FP8 the slot of K also has the scales of both.
template <int kHeadDim, int kNumHeads, bool kFp8>
struct RunSlots {
  static constexpr bool kHasCodes = kFp8;
  static constexpr int kHeads = kNumHeads;
  /// Teams of a CTA, with a warp for each head: they take the groups of its run in turn.
  static constexpr int kTeams = kRunWarps / kHeads, kCopyWarps = kRunCopyWarps / kTeams;
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

  /// Piece `piece` (16 bytes) of a head's part of a row.
  __device__ const unsigned char* at(int slot, int head, int row, int piece) const {
    const int of_row = head * kHeadBytes / 16 + piece;
    return parts[slot][of_row / 8] + row * kSwizzledRowBytes + (of_row % 8 ^ row % 8) * 16;
  }
};

template <int kHeadDim, class Slots>
struct RunShared {
  static constexpr int kSlots = Slots::kSlots, kHeads = Slots::kHeads, kTeams = Slots::kTeams;
  Slots slots[kTeams];
  typename Slots::SlotScales scales[kTeams][Slots::kHasCodes ? kSlots : 1];
  RunPartial<kHeadDim, Slots::kHasCodes> results[kHeads];  // of the groups so far
  uint64_t full[kTeams][kSlots], empty[kTeams][kSlots];
  uint64_t turn[kTeams][kHeads];  // at which a team may add its group to the result
};

/// The partial results of each sequence and KV head, and counts of finished pieces.
template <int kHeadDim, bool kCodes>
struct RunWorkspace {
  unsigned int* counters;  // [num_seqs, num_kv_heads] finished pieces, zero before and after
  RunPartial<kHeadDim, kCodes>* partials;  // [num_seqs, num_kv_heads, max_groups]
  int max_groups;
  bool merges_apart;  // all groups are left in `partials`, for merge_groups_kernel
};

#if KV_WARPGROUPS

/// All threads of the CTA call it before any of them uses a slot.
template <class Shared>
__device__ inline void init_barriers(Shared& shared) {
  if (threadIdx.x == 0) {
    for (int team = 0; team < Shared::kTeams; ++team) {
      for (int i = 0; i < Shared::kSlots; ++i) {
        init_mbarrier(&shared.full[team][i], 1);
        init_mbarrier(&shared.empty[team][i], Shared::kHeads);
      }
      for (uint64_t& turn : shared.turn[team]) init_mbarrier(&turn, 1);
    }
    publish_barriers();
  }
  __syncthreads();
}

#endif

}  // namespace kv::hopper
