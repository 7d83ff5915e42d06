#pragma once

// Gives the blocks of a cache a content. That of a new cache is undefined.

#include <cstddef>
#include <cstdint>

#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson03 {

/// Sets every byte of every block, but not of the guards.
inline void fill_blocks(PagedKvCache& cache, int byte, const kv::Stream& stream) {
  const KvBlocks first = cache.layer(0);
  const int num_blocks = cache.num_layers() * cache.num_blocks();
  const int at_once = first.block_stride == first.block_size ? num_blocks : 1;
  for (int i = 0; i < first.num_pieces(); ++i) {
    for (int32_t id = 0; id < num_blocks; id += at_once) {
      const Piece piece = first.piece(id, i);
      const auto bytes = static_cast<size_t>(piece.bytes) * static_cast<size_t>(at_once);
      kv::fill_bytes(piece.data, byte, bytes, stream);
    }
  }
}

}  // namespace lesson03
