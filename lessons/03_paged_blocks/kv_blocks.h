#pragma once

// One layer of a paged cache as a kernel sees it: plain pointers and sizes, no ownership.

#include <cstdint>

namespace lesson03 {

/// A slot that means "do not write" (vLLM: the padding value of slot_mapping).
inline constexpr int64_t kNoSlot = -1;

/// K and V of one layer. Normally one array each, and slot s = block_id * block_size + offset is
/// row s of it. A debug pool allocates every block by itself, so that a sanitizer sees a kernel
/// that runs over the end of a block; then k and v are null and the block pointers are set.
struct KvBlocks {
  void* k = nullptr;  // [num_blocks, block_size, num_kv_heads, head_dim], activation dtype
  void* v = nullptr;
  void* const* k_block = nullptr;  // [num_blocks] of [block_size, num_kv_heads, head_dim]
  void* const* v_block = nullptr;  // on the stream's device, as what they point to
  int num_blocks = 0;
  int block_size = 0;  // tokens per block
  int num_kv_heads = 0;
  int head_dim = 0;

  bool separate() const { return k_block != nullptr; }
};

}  // namespace lesson03
