#pragma once

// One layer of a paged cache as a kernel sees it, plain pointers and sizes, and where a slot's rows
// are in it.

#include <cstdint>

#ifdef __CUDACC__
#define KV_HOST_DEVICE __host__ __device__
#else
#define KV_HOST_DEVICE
#endif

namespace lesson03 {

/// A slot that means "do not write" (vLLM: the padding value of slot_mapping).
inline constexpr int64_t kNoSlot = -1;

/// K and V of one layer: rows of [num_kv_heads, head_dim], in activation dtype. Block b begins at
/// row b * block_stride. Normally that is row b * block_size, so that the slot block_id *
/// block_size + offset is the row of its token. In a debug pool rows of NaN lie between the blocks:
/// a kernel that reads or writes beside a block is found out (PagedKvCache).
struct KvBlocks {
  void* k = nullptr;  // row 0 of block 0: [block_size, num_kv_heads, head_dim], and so on
  void* v = nullptr;
  int num_blocks = 0;
  int block_size = 0;    // tokens per block
  int block_stride = 0;  // rows from one block to the next, at least block_size
  int num_kv_heads = 0;
  int head_dim = 0;
};

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
