// Tests of copy_blocks: the whole cache is compared, byte for byte.

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "copy_blocks.h"
#include "tests/support/kv_shape.h"

namespace {

using kvtest::shape;
using lesson03::PagedKvCache;
using lesson05::BlockCopy;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCpu);
  return kStream;
}

/// K and V of every block of every layer: [layers][blocks][2].
using Contents = std::vector<std::vector<std::byte>>;

size_t bytes_of(const PagedKvCache& cache) {
  return static_cast<size_t>(cache.bytes_per_block() / cache.num_layers() / 2);
}

Contents contents(const PagedKvCache& cache) {
  Contents all;
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int id = 0; id < cache.num_blocks(); ++id) {
      for (const void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
        all.emplace_back(bytes_of(cache));
        std::memcpy(all.back().data(), at, all.back().size());
      }
    }
  }
  return all;
}

void fill_randomly(const PagedKvCache& cache, uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int id = 0; id < cache.num_blocks(); ++id) {
      for (void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
        for (size_t i = 0; i < bytes_of(cache); ++i) {
          static_cast<std::byte*>(at)[i] = static_cast<std::byte>(rng());
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("copy_blocks copies all layers of K and V and touches nothing else") {
  for (const bool separate : {false, true}) {
    for (const int block_size : {1, 3, 16}) {
      CAPTURE(separate);
      CAPTURE(block_size);
      constexpr int kBlocks = 7, kLayers = 3;
      const PagedKvCache cache(shape(kLayers, 2, 5), stream(), kBlocks, block_size, separate);
      fill_randomly(cache, 1);
      Contents wanted = contents(cache);
      const std::vector<BlockCopy> copies{{6, 0}, {2, 5}, {6, 3}};  // one source twice
      lesson05::copy_blocks({.cache = &cache, .copies = copies}, stream());
      for (size_t layer = 0; layer < kLayers; ++layer) {
        for (const BlockCopy& copy : copies) {
          for (size_t part = 0; part < 2; ++part) {
            const auto at = [&](int32_t id) {
              return (layer * kBlocks + static_cast<size_t>(id)) * 2 + part;
            };
            wanted[at(copy.destination)] = wanted[at(copy.source)];
          }
        }
      }
      CHECK(contents(cache) == wanted);
    }
  }
}

TEST_CASE("copy_blocks refuses what it cannot do before it writes") {
  const PagedKvCache cache(shape(2, 2, 4), stream(), 4, 2);
  fill_randomly(cache, 2);
  const Contents before = contents(cache);
  const auto copy = [&](std::vector<BlockCopy> copies) {
    lesson05::copy_blocks({.cache = &cache, .copies = copies}, stream());
  };
  CHECK_THROWS_AS(copy({{0, 1}, {2, 4}}), std::out_of_range);
  CHECK_THROWS_AS(copy({{0, 1}, {-1, 2}}), std::out_of_range);
  CHECK_THROWS_AS(copy({{0, 1}, {2, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(copy({{0, 1}, {1, 2}}), std::invalid_argument);
  CHECK_THROWS_AS(copy({{3, 3}}), std::invalid_argument);
  CHECK_THROWS_WITH(copy({{0, 9}}), doctest::Contains("block 9, the cache has 4"));
  CHECK(contents(cache) == before);
  copy({});
  CHECK(contents(cache) == before);
}

TEST_CASE("the manager's copies arrive in the cache") {
  constexpr int kSize = 4;
  const PagedKvCache cache(shape(2, 2, 4), stream(), 8, kSize);
  fill_randomly(cache, 3);
  lesson05::BlockManager manager(8, kSize, [&](std::span<const BlockCopy> copies) {
    lesson05::copy_blocks({.cache = &cache, .copies = copies}, stream());
  });
  lesson05::Growth growth{.seq = manager.add_sequence(), .num_tokens = 6};
  REQUIRE(manager.append({&growth, 1}));
  growth = {.seq = manager.fork(growth.seq), .num_tokens = 1};
  const int32_t source = manager.table(growth.seq).block_ids().back();
  REQUIRE(manager.append({&growth, 1}));
  const int32_t own = manager.table(growth.seq).block_ids().back();
  CHECK(own != source);
  for (int layer = 0; layer < 2; ++layer) {
    CHECK(std::memcmp(cache.block(layer, own).k, cache.block(layer, source).k, bytes_of(cache)) ==
          0);
    CHECK(std::memcmp(cache.block(layer, own).v, cache.block(layer, source).v, bytes_of(cache)) ==
          0);
  }
}
