#pragma once

// A cache whose tokens hold numbers, for random tests without a model: all bytes that a token has,
// in either format.

#include <cstddef>
#include <cstdint>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "tests/support/kv_shape.h"
#include "tests/support/shortened.h"

namespace lesson11_test {

/// Two layers whose rows have 8 bytes; in FP8 the scales of a block are whole words.
inline kv::ModelConfig shape_in(kv::KvFormat format) {
  return format == kv::KvFormat::kFp8 ? kvtest::shape(2, 8, 1) : kvtest::shape(2, 1, 2);
}

/// Calls f(byte) for each byte of a token: its rows of K and V in all layers, and its scales.
template <class F>
void for_each_byte(lesson03::PagedKvCache& cache, int32_t block_id, int offset, F f) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const lesson03::KvBlocks blocks = cache.layer(layer);
    for (int index = 0; index < blocks.num_pieces(); ++index) {
      const lesson03::Piece piece = blocks.piece(block_id, index);
      const bool is_rows = index < 2;
      const int width = piece.bytes / blocks.block_size;  // bytes of a token in the piece
      for (int i = 0; i < width; ++i) {
        f(piece.data[is_rows ? offset * width + i : i * blocks.block_size + offset]);
      }
    }
  }
}

/// Writes a number into a token, or compares it with what the token holds.
inline void visit(lesson03::PagedKvCache& cache, int32_t block_id, int offset, int64_t number,
                  bool writes) {
  uint64_t mixed = static_cast<uint64_t>(number);
  for_each_byte(cache, block_id, offset, [&](std::byte& byte) {
    mixed = mixed * 0x9E3779B97F4A7C15 + 1;  // each byte of the token holds another one
    const auto wanted = static_cast<std::byte>(mixed >> 56);
    if (writes) byte = wanted;
    kvtest::require(byte == wanted, "a request reads what is not its own");
  });
}

/// The first byte of a piece of a block in layer 1: K, V or the scales.
inline std::byte& first_byte(lesson03::PagedKvCache& cache, int32_t block_id, size_t random) {
  const lesson03::KvBlocks blocks = cache.layer(1);
  const size_t index = random % static_cast<size_t>(blocks.num_pieces());
  return *blocks.piece(block_id, static_cast<int>(index)).data;
}

}  // namespace lesson11_test
