// Tests of copy_blocks: the whole cache is compared, byte for byte.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "support.h"

namespace {

using lesson05::BlockCopy;
using namespace lesson05_test;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCpu);
  return kStream;
}

}  // namespace

TEST_CASE("copy_blocks: one block of letters, in two layers") { check_copy_of_letters(stream()); }

TEST_CASE("copy_blocks copies all layers of K and V and touches nothing else") {
  for (const int block_size : {1, 3, 16})
    check_copies_of(k_and_v(2, 5, block_size, kv::Device::kCpu), stream());
}

TEST_CASE("copy_blocks copies regions of different sizes") {
  for (const int block_size : {1, 3, 16}) check_copies_of(with_scales(2, 5, block_size), stream());
  check_copy_past_2_to_the_31(stream());
}

TEST_CASE("copy_blocks refuses what it cannot do before it writes") {
  const BlockMemory memory(2, 4, {64, 64}, stream());
  const Contents before = fill_randomly(memory.regions, stream());
  const auto copy = [&](std::vector<BlockCopy> copies) {
    lesson05::copy_blocks({.regions = &memory.regions, .copies = copies}, stream());
  };
  CHECK_THROWS_WITH_AS(copy({{0, 1}, {2, 4}}), doctest::Contains("no block 4, the cache has 4"),
                       std::out_of_range);
  CHECK_THROWS_AS(copy({{0, 1}, {-1, 2}}), std::out_of_range);
  CHECK_THROWS_WITH_AS(copy({{0, 1}, {2, 1}}), "copy_blocks: 2 to 1: a destination is named again",
                       std::invalid_argument);
  CHECK_THROWS_AS(copy({{0, 1}, {1, 2}}), std::invalid_argument);
  CHECK_THROWS_AS(copy({{1, 2}, {0, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(copy({{3, 3}}), std::invalid_argument);
  copy({});
  CHECK(difference(memory.regions, before, stream()) == "");
}

TEST_CASE("the manager's copies arrive in the cache") {
  const lesson03::PagedKvCache cache(kvtest::shape(2, 2, 4), stream(), 8, 4);
  const lesson05::BlockRegions regions = lesson05::regions_of(cache, stream());
  Contents wanted = fill_randomly(regions, stream());
  lesson05::BlockManager manager(8, 4, [&](std::span<const BlockCopy> copies) {
    lesson05::copy_blocks({.regions = &regions, .copies = copies}, stream());
  });
  lesson05::Growth growth{.seq = manager.add_sequence(), .num_tokens = 6};
  REQUIRE(manager.append({&growth, 1}));
  growth = {.seq = manager.fork(growth.seq), .num_tokens = 1};
  const int32_t source = manager.table(growth.seq).block_ids().back();
  REQUIRE(manager.append({&growth, 1}));
  const int32_t own = manager.table(growth.seq).block_ids().back();
  CHECK(own != source);
  copy(wanted, {source, own});
  CHECK(difference(regions, wanted, stream()) == "");
}
