// Tests of compare_blocks, and what it is for: the K and V of a hit are those of computing anew.

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "compare_blocks.h"
#include "hits.h"
#include "tests/support/kv_shape.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::shape;
using kvtest::shipped_model;
using lesson03::PagedKvCache;
using lesson06::BlockPair;
using lesson06::compare_blocks;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCpu);
  return kStream;
}

}  // namespace

TEST_CASE("compare_blocks counts every element that differs, in K and V of all layers") {
  for (const int guard_rows : {0, 1}) {
    for (const int block_size : {1, 3, 16}) {
      CAPTURE(guard_rows);
      CAPTURE(block_size);
      constexpr int kLayers = 3, kWidth = 2 * 5;
      PagedKvCache a(shape(kLayers, 2, 5), stream(), 4, block_size);
      PagedKvCache b(shape(kLayers, 2, 5), stream(), 7, block_size, guard_rows);
      a.fill(0, stream()), b.fill(0, stream());
      const auto k = [&](int layer, int id) { return static_cast<float*>(b.block(layer, id).k); };
      const auto v = [&](int layer, int id) { return static_cast<float*>(b.block(layer, id).v); };
      const int last = block_size * kWidth - 1;
      k(0, 6)[0] = 1.0f;               // the first element of all
      v(kLayers - 1, 6)[last] = 2.0f;  // and the last
      v(1, 5)[last] = -0.0f;           // equal as numbers, other bits
      k(2, 0)[0] = 3.0f;               // in a block that no pair below names
      const std::vector<BlockPair> pairs{{0, 6}, {3, 5}, {1, 4}, {2, 6}};
      CHECK(compare_blocks({.first = &a, .second = &b, .pairs = pairs}, stream()) ==
            std::vector<int64_t>{2, 1, 0, 2});
    }
  }
}

TEST_CASE("compare_blocks: a NaN is equal to itself, and a cache to itself") {
  PagedKvCache cache(shape(2, 2, 4), stream(), 3, 2);
  cache.fill(0xFF, stream());
  std::vector<BlockPair> pairs{{0, 1}, {2, 2}};
  CHECK(compare_blocks({.first = &cache, .second = &cache, .pairs = pairs}, stream()) ==
        std::vector<int64_t>{0, 0});
  std::memset(cache.block(1, 1).k, 0, 2 * 2 * 4 * sizeof(float));
  CHECK(compare_blocks({.first = &cache, .second = &cache, .pairs = pairs}, stream()) ==
        std::vector<int64_t>{2 * 2 * 4, 0});
  CHECK(compare_blocks({.first = &cache, .second = &cache, .pairs = {}}, stream()).empty());
}

TEST_CASE("compare_blocks refuses blocks that are not there or have another shape") {
  PagedKvCache a(shape(2, 2, 4), stream(), 3, 2), b(shape(2, 2, 4), stream(), 5, 2);
  const auto compare = [&](BlockPair pair, PagedKvCache& second) {
    return compare_blocks({.first = &a, .second = &second, .pairs = {&pair, 1}}, stream());
  };
  CHECK_THROWS_WITH_AS(compare({3, 0}, b), doctest::Contains("block 3, the cache has 3"),
                       std::out_of_range);
  CHECK_THROWS_AS(compare({-1, 0}, b), std::out_of_range);
  CHECK_THROWS_WITH_AS(compare({0, 5}, b), doctest::Contains("block 5, the cache has 5"),
                       std::out_of_range);
  for (const auto& other : {shape(3, 2, 4), shape(2, 1, 4), shape(2, 2, 8)}) {
    PagedKvCache c(other, stream(), 3, 2);
    CHECK_THROWS_AS(compare({0, 0}, c), std::invalid_argument);
  }
  PagedKvCache larger(shape(2, 2, 4), stream(), 3, 4);
  CHECK_THROWS_AS(compare({0, 0}, larger), std::invalid_argument);
}

TEST_CASE("the blocks of a hit hold the bits that computing anew gives") {
  lesson06_test::check_hits(shipped_model());
}
