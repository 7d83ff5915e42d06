#pragma once

// Gives the blocks of a cache a content. That of a new cache is undefined.

#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson03 {

/// Sets every byte of every block.
inline void fill_blocks(PagedKvCache& cache, int byte, const kv::Stream& stream) {
  const KvBlocks& first = cache.layer(0);
  for (void* const blocks : {first.k, first.v}) {
    kv::fill_bytes(blocks, byte, cache.bytes_reserved() / 2, stream);
  }
}

}  // namespace lesson03
