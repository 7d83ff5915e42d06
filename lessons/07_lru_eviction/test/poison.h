#pragma once

// Checks of poison_blocks, for any device.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "lessons/03_paged_blocks/cli/fill_blocks.h"
#include "lessons/03_paged_blocks/test/guards.h"
#include "lessons/07_lru_eviction/poison_blocks.h"
#include "tests/support/kv_shape.h"
#include "tests/support/readable.h"

namespace lesson07_test {

/// A cache of zeros: 2 layers, 5 blocks of 3 tokens, 2 KV heads.
class PoisonedCache {
 public:
  PoisonedCache(const kv::Stream& stream, int head_dim,
                kv::KvFormat format = kv::KvFormat::kActivations)
      : stream_(&stream), cache_(kvtest::shape(2, 2, head_dim), stream, 5, 3, 0, format) {
    lesson03::fill_blocks(cache_, 0, stream);
  }
  void poison(const std::vector<int32_t>& ids) {
    lesson07::poison_blocks({.cache = &cache_, .block_ids = ids, .scratch = &scratch_}, *stream_);
  }
  /// The number of poisoned bytes in this piece of each block.
  std::vector<int64_t> poisoned(int layer, int piece) {
    std::vector<uint8_t> bytes(static_cast<size_t>(bytes_of_piece(piece)));
    std::vector<int64_t> counts;
    for (int32_t id = 0; id < cache_.num_blocks(); ++id) {
      kv::copy_to_host(bytes.data(), cache_.layer(layer).piece(id, piece).data, bytes.size(),
                       *stream_);
      counts.push_back(std::ranges::count(bytes, 0xFF));
    }
    return counts;
  }
  int num_pieces() { return cache_.layer(0).num_pieces(); }
  int64_t bytes_of_piece(int piece) { return cache_.layer(0).piece(0, piece).bytes; }

 private:
  const kv::Stream* stream_;
  lesson03::PagedKvCache cache_;
  kv::DeviceBuffer scratch_;
};

/// Checks that every byte of the named blocks is poisoned, in all layers, and no other byte.
inline void check_poison(const kv::Stream& stream, int head_dim,
                         kv::KvFormat format = kv::KvFormat::kActivations) {
  PoisonedCache cache(stream, head_dim, format);
  cache.poison({4, 1});
  INFO("bytes of blocks 0 to 4 that are poisoned; blocks 4 and 1 should be");
  for (const int layer : {0, 1}) {
    for (int piece = 0; piece < cache.num_pieces(); ++piece) {
      const std::string what = lesson03_test::piece_name(piece);
      const int64_t all = cache.bytes_of_piece(piece);
      CAPTURE(layer);
      CAPTURE(what);
      CHECK(cache.poisoned(layer, piece) == std::vector<int64_t>{0, all, 0, 0, all});
    }
  }
}

/// Checks that the error names a block that is not in the cache, and that nothing has been written.
inline void check_poison_refuses(const kv::Stream& stream) {
  PoisonedCache cache(stream, 8);
  CHECK_THROWS_WITH_AS(cache.poison({0, 5}), doctest::Contains("no block 5"), std::out_of_range);
  CHECK_THROWS_WITH_AS(cache.poison({-1}), doctest::Contains("no block -1"), std::out_of_range);
  CHECK(cache.poisoned(0, 0) == std::vector<int64_t>{0, 0, 0, 0, 0});
}

}  // namespace lesson07_test
