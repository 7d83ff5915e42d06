#pragma once

// What is known about one block. Source: vLLM's KVCacheBlock (v0.22.1:
// vllm/v1/core/kv_cache_utils.py).

#include <cstdint>

#include "block_key.h"

namespace lesson07 {

/// Lives in the pool's array for as long as the pool does, at one address: the queue links blocks
/// through their own pointers, and so needs no memory of its own. One cache line: everything that
/// taking a block or giving it back looks at.
struct alignas(64) KvBlock {
  // Only FreeBlockQueue touches these. Null: the block is not in the queue.
  KvBlock* prev_free = nullptr;
  KvBlock* next_free = nullptr;

  // Only BlockPool touches what follows.
  KvBlock* next_in_bucket = nullptr;  // of the pool's hash table
  uint64_t hash = 0;                  // of what it holds, if is_cached
  int32_t id = 0;
  int32_t ref_cnt = 0;  // tables that hold it; 0: it is in the free queue
  bool is_cached = false;

  // For the metrics, in ticks of the pool's clock: one tick for each call that uses blocks.
  int32_t num_hits = 0;  // since it was cached
  int64_t cached_at = 0;
  int64_t last_used_at = 0;
};
static_assert(sizeof(KvBlock) == 64);

/// What a cached block holds, beside its hash: a lookup compares it, and nothing else needs it. Its
/// tokens are in the pool's array.
struct BlockContent {
  PrefixId parent = kNoPrefix;  // the prefix that ends where the block begins
  PrefixId prefix = 0;          // token 0 up to the block's end
  ExtraKeys extra_keys;
};

}  // namespace lesson07
