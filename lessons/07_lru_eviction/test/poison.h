#pragma once

// What poison_blocks has to do, on any device.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "lessons/07_lru_eviction/poison_blocks.h"
#include "tests/support/kv_shape.h"

namespace lesson07_test {

/// Every byte of K and V of the named blocks, in all layers, and no other byte.
inline void check_poison(const kv::Stream& stream, int head_dim) {
  CAPTURE(head_dim);
  lesson03::PagedKvCache cache(kvtest::shape(3, 3, head_dim), stream, 7, 5);
  cache.fill(0, stream);
  kv::DeviceBuffer scratch;
  const auto poison = [&](const std::vector<int32_t>& ids) {
    lesson07::poison_blocks({.cache = &cache, .block_ids = ids, .scratch = &scratch}, stream);
  };
  poison({6, 2});
  CHECK_THROWS_WITH_AS(poison({0, 7}), doctest::Contains("no block 7"), std::out_of_range);
  std::vector<uint8_t> bytes(static_cast<size_t>(cache.bytes_per_block() / 3 / 2));
  for (int layer = 0; layer < 3; ++layer) {
    for (int32_t id = 0; id < 7; ++id) {
      for (const void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
        kv::copy_to_host(bytes.data(), at, bytes.size(), stream);
        CHECK(std::ranges::count(bytes, id == 6 || id == 2 ? 0xFF : 0) == std::ssize(bytes));
      }
    }
  }
}

}  // namespace lesson07_test
