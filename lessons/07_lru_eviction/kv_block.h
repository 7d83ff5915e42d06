#pragma once

// What is known about one block. Source: vLLM's KVCacheBlock (v0.22.1:
// vllm/v1/core/kv_cache_utils.py).

#include <cstdint>
#include <optional>

#include "block_key.h"

namespace lesson07 {

/// Lives in the pool's array for as long as the pool does, at one address: the queue links blocks
/// through their own pointers, and so needs no memory of its own. Two cache lines: one that a
/// lookup reads, and one for who holds it.
struct alignas(64) KvBlock {
  // What it can be found under; no value: it is not cached. Only BlockPool touches these.
  struct Content {
    uint64_t hash = 0;
    PrefixId parent = kNoPrefix;  // the prefix that ends where this block begins
    PrefixId prefix = 0;          // token 0 up to this block's end
    ExtraKeys extra_keys;         // its tokens are in the pool's array
  };
  KvBlock* next_in_bucket = nullptr;  // of the pool's hash table
  int64_t cached_at = 0;              // in ticks of the pool's clock: one for each call
  std::optional<Content> content;     // whether there is one stands in the second line

  int32_t id = 0;
  int32_t ref_cnt = 0;  // tables that hold it; 0: it is in the free queue

  // Only FreeBlockQueue touches these. Null: the block is not in the queue.
  KvBlock* prev_free = nullptr;
  KvBlock* next_free = nullptr;

  // For the metrics.
  int64_t last_used_at = 0;  // ticks
  int64_t num_hits = 0;      // since it was cached
};
static_assert(sizeof(KvBlock) == 128);

}  // namespace lesson07
