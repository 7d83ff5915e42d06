#pragma once

// Checks of poison_blocks, for any device.

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "lessons/05_refcount_cow/test/block_memory.h"
#include "lessons/07_lru_eviction/poison_blocks.h"
#include "tests/support/readable.h"

namespace lesson07_test {

/// Blocks of zeros: 2 layers, 5 blocks.
class PoisonedBlocks {
 public:
  PoisonedBlocks(const std::vector<int64_t>& bytes, const kv::Stream& stream)
      : stream_(&stream), memory_(2, 5, bytes, stream) {
    const lesson05_test::Bytes zeros(regions().bytes_per_block());
    for (int32_t id = 0; id < 5; ++id) lesson05_test::write_block(regions(), id, zeros, stream);
  }
  const lesson05::BlockRegions& regions() const { return memory_.regions; }
  void poison(const std::vector<int32_t>& ids) {
    lesson07::poison_blocks({.regions = &regions(), .block_ids = ids, .scratch = &scratch_},
                            *stream_);
  }
  /// The number of poisoned bytes that each block has in this region.
  std::vector<int64_t> poisoned(const lesson05::Region& region) {
    std::vector<int64_t> counts;
    for (const auto& block : lesson05_test::contents(regions(), *stream_)) {
      counts.push_back(
          std::ranges::count(std::span(block).subspan(region.begin, region.bytes), 0xFF));
    }
    return counts;
  }

 private:
  const kv::Stream* stream_;
  lesson05_test::BlockMemory memory_;
  kv::DeviceBuffer scratch_;
};

/// Checks that every byte of the named blocks is poisoned, in all regions, and no other byte.
inline void check_poison(const std::vector<int64_t>& bytes, const kv::Stream& stream) {
  PoisonedBlocks blocks(bytes, stream);
  blocks.poison({4, 1});
  INFO("bytes of blocks 0 to 4 that are poisoned; blocks 4 and 1 should be");
  for (size_t region = 0; region < blocks.regions().list().size(); ++region) {
    CAPTURE(region);  // K of layer 0, V of layer 0, K of layer 1, ...
    const int64_t all = blocks.regions().list()[region].bytes;
    CHECK(blocks.poisoned(blocks.regions().list()[region]) ==
          std::vector<int64_t>{0, all, 0, 0, all});
  }
}

/// Checks that the error names a block that is not in the cache, and that nothing has been written.
inline void check_poison_refuses(const kv::Stream& stream) {
  PoisonedBlocks blocks({48, 48}, stream);
  CHECK_THROWS_WITH_AS(blocks.poison({0, 5}), doctest::Contains("no block 5"), std::out_of_range);
  CHECK_THROWS_WITH_AS(blocks.poison({-1}), doctest::Contains("no block -1"), std::out_of_range);
  CHECK(blocks.poisoned(blocks.regions().list()[0]) == std::vector<int64_t>{0, 0, 0, 0, 0});
}

}  // namespace lesson07_test
