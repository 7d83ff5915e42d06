#pragma once

// The ids in a free queue. For tests.

#include <cstdint>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"
#include "tests/support/readable.h"

namespace lesson07_test {

inline std::vector<int32_t> ids_of(const lesson07::FreeBlockQueue& queue) {
  std::vector<int32_t> ids;
  for (const lesson07::KvBlock* block : queue.all()) ids.push_back(block->id);
  return ids;
}

/// Front to back: the first one is taken next.
inline std::vector<int32_t> queue_of(const lesson07::BlockPool& pool) {
  return ids_of(pool.queue());
}

}  // namespace lesson07_test
