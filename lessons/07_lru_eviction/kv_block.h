#pragma once

// What is known about one block. Source: vLLM's KVCacheBlock (v0.22.1:
// vllm/v1/core/kv_cache_utils.py).

#include <cstdint>

namespace lesson07 {

/// Lives in the pool's array for as long as the pool does, at one address: the queue links blocks
/// through their own pointers, and so needs no memory of its own.
struct KvBlock {
  // Only FreeBlockQueue touches these. Null: the block is not in the queue.
  KvBlock* prev_free = nullptr;
  KvBlock* next_free = nullptr;
  // Only BlockPool touches these.
  int32_t id = 0;
  int32_t ref_cnt = 0;   // tables that hold it; 0: it is in the free queue
  int32_t num_hits = 0;  // requests that found what it holds
  bool is_cached = false;
};

}  // namespace lesson07
