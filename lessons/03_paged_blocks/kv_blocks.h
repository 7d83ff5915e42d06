#pragma once

// One layer of a paged cache as a kernel sees it: plain pointers and sizes, no ownership.

#include <cstdint>

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

}  // namespace lesson03
