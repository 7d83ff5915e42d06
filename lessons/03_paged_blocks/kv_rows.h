#pragma once

// Where a slot's rows are: how a block and an offset become an address, for the CPU twins and the
// kernels that copy.

#include <cstdint>

#include "kv_blocks.h"

#ifdef __CUDACC__
#define KV_HOST_DEVICE __host__ __device__
#else
#define KV_HOST_DEVICE
#endif

namespace lesson03 {

/// The row of K in slot (block_id, offset): [num_kv_heads, head_dim]. T is the activation type.
template <class T>
KV_HOST_DEVICE inline T* k_row(const KvBlocks& cache, int64_t block_id, int offset) {
  const int64_t width = int64_t{cache.num_kv_heads} * cache.head_dim;
  return static_cast<T*>(cache.k) + (block_id * cache.block_stride + offset) * width;
}

/// The row of V in slot (block_id, offset).
template <class T>
KV_HOST_DEVICE inline T* v_row(const KvBlocks& cache, int64_t block_id, int offset) {
  const int64_t width = int64_t{cache.num_kv_heads} * cache.head_dim;
  return static_cast<T*>(cache.v) + (block_id * cache.block_stride + offset) * width;
}

/// True if the cache has this slot.
KV_HOST_DEVICE inline bool has_slot(const KvBlocks& cache, int64_t slot) {
  return slot >= 0 && slot < int64_t{cache.num_blocks} * cache.block_size;
}

}  // namespace lesson03
