#pragma once

// The memory of run_queries.cuh: the slots that K and V pass through, in bf16 (Bf16Slots) or in FP8
// (fp8/fp8_slots.cuh), and the workspace for partial results.

#include "kernels/attention/plan.h"
#include "kernels/attention/state.cuh"
#include "kernels/warpgroup.cuh"

namespace kv::attention {

inline constexpr int kRunThreads = 32 * (kRunHeads + 1);

/// Slots for a quarter of a tile of K or V, in the layout of the cache.
template <int kHeadDim>
struct Bf16Slots {
  static constexpr bool kAreFp8 = false;
  static constexpr int kHeads = kRunHeads;
  static constexpr int kRowBytes = kRunHeads * kHeadDim * 2;  // of one token, all heads
  static constexpr int kSlotBytes = kQuarterTokens * kRowBytes;
  static constexpr int kSlots = 192 * 1024 / kSlotBytes;
  struct Scales {};
  alignas(128) unsigned char rows[kSlots][kSlotBytes];

  __device__ const unsigned char* of_head(int slot, int head) const {
    return rows[slot] + head * kHeadDim * 2;
  }
};

template <int kHeadDim, class Slots>
struct RunShared {
  static constexpr int kSlots = Slots::kSlots, kHeads = Slots::kHeads;
  Slots slots;
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

/// A position in the ring of slots.
template <int kSlots>
struct Ring {
  int slot = 0, phase = 0;
  __device__ void next() {
    if (++slot < kSlots) return;
    slot = 0;
    phase ^= 1;
  }
};

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

}  // namespace kv::attention
