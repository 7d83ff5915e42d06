#pragma once

// Checks of poison_blocks, for any device.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "lessons/07_lru_eviction/poison_blocks.h"
#include "tests/support/kv_shape.h"
#include "tests/support/readable.h"

namespace lesson07_test {

/// A cache of zeros: 2 layers, 5 blocks of 3 tokens, 2 KV heads.
class PoisonedCache {
 public:
  PoisonedCache(const kv::Stream& stream, int head_dim)
      : stream_(&stream), cache_(kvtest::shape(2, 2, head_dim), stream, 5, 3) {
    cache_.fill(0, stream);
  }
  void poison(const std::vector<int32_t>& ids) {
    lesson07::poison_blocks({.cache = &cache_, .block_ids = ids, .scratch = &scratch_}, *stream_);
  }
  /// The number of poisoned bytes in each block's K, or V.
  std::vector<int64_t> poisoned(int layer, bool is_k) {
    std::vector<uint8_t> bytes(static_cast<size_t>(bytes_of_block()));
    std::vector<int64_t> counts;
    for (int32_t id = 0; id < cache_.num_blocks(); ++id) {
      const auto [k, v] = cache_.block(layer, id);
      kv::copy_to_host(bytes.data(), is_k ? k : v, bytes.size(), *stream_);
      counts.push_back(std::ranges::count(bytes, 0xFF));
    }
    return counts;
  }
  int64_t bytes_of_block() const {  // of K in one layer
    return cache_.bytes_per_block() / cache_.num_layers() / 2;
  }

 private:
  const kv::Stream* stream_;
  lesson03::PagedKvCache cache_;
  kv::DeviceBuffer scratch_;
};

/// Checks that every byte of K and V of the named blocks is poisoned, in all layers, and no other
/// byte.
inline void check_poison(const kv::Stream& stream, int head_dim) {
  PoisonedCache cache(stream, head_dim);
  cache.poison({4, 1});
  const int64_t all = cache.bytes_of_block();
  INFO("bytes of blocks 0 to 4 that are poisoned; blocks 4 and 1 should be");
  for (const int layer : {0, 1}) {
    for (const std::string what : {"K", "V"}) {
      CAPTURE(layer);
      CAPTURE(what);
      CHECK(cache.poisoned(layer, what == "K") == std::vector<int64_t>{0, all, 0, 0, all});
    }
  }
}

/// Checks that the error names a block that is not in the cache, and that nothing has been written.
inline void check_poison_refuses(const kv::Stream& stream) {
  PoisonedCache cache(stream, 8);
  CHECK_THROWS_WITH_AS(cache.poison({0, 5}), doctest::Contains("no block 5"), std::out_of_range);
  CHECK_THROWS_WITH_AS(cache.poison({-1}), doctest::Contains("no block -1"), std::out_of_range);
  CHECK(cache.poisoned(0, true) == std::vector<int64_t>{0, 0, 0, 0, 0});
}

}  // namespace lesson07_test
