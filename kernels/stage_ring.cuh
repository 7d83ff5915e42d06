#pragma once

// A ring of stages in shared memory that weights stream through. The CTA keeps every stage that
// fits in flight, so a small product has all of its weights in flight before its input exists.
//
// sm_90: one thread starts a bulk copy of a whole contiguous range. sm_80: all threads copy
// 16 bytes each. Either way the bytes arrive at an mbarrier, one per stage.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor_core.cuh"

namespace kv {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KV_BULK_COPY 1
#else
#define KV_BULK_COPY 0
#endif

/// The barrier expects one arrival (sm_90: that of the copying thread), or one per thread.
__device__ inline void init_stage(uint64_t* barrier, int threads) {
  init_mbarrier(barrier, KV_BULK_COPY ? 1 : threads);
#if KV_BULK_COPY
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// True if this thread starts copies.
__device__ inline bool asks_for_copies() { return !KV_BULK_COPY || threadIdx.x == 0; }

/// Announces the number of bytes of the stage's next fill. Call once per fill, before copy_range.
__device__ inline void expect_bytes(uint64_t* barrier, uint32_t bytes) {
#if KV_BULK_COPY
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

/// Starts copying a contiguous range, a multiple of 16 bytes, both ends aligned to 16.
__device__ inline void copy_range(void* shared, const void* global, uint32_t bytes,
                                  uint64_t* barrier) {
#if KV_BULK_COPY
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#else
  for (uint32_t i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16) {
    copy_16(static_cast<char*>(shared) + i, static_cast<const char*>(global) + i, true);
  }
#endif
}

/// Ends a fill; call it after the last copy_range.
__device__ inline void end_of_fill(uint64_t* barrier) {
#if !KV_BULK_COPY
  arrive_with_copies(barrier);
#endif
}

/// Waits until fill number `fill` (0, 1, ...) of the stage has arrived.
__device__ inline void wait_for_stage(uint64_t* barrier, int fill) {
  wait_for_phase(barrier, fill & 1);
}

}  // namespace kv
