#pragma once

// The K and V of a hit are those of computing again. For a model on any device.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/06_prefix_hashing/cli/generate_in.h"
#include "lessons/06_prefix_hashing/compare_blocks.h"
#include "tests/support/kv_shape.h"
#include "tests/support/readable.h"
#include "tests/support/same_bits.h"

namespace lesson06_test {

/// Two requests with `shared` tokens in front: the second one's blocks, against those of an engine
/// that has seen it alone.
inline void check_hit(kv::Model& model, int block_size, int shared) {
  CAPTURE(block_size);
  CAPTURE(shared);
  const lesson03::PagedOptions options{.block_size = block_size, .num_blocks = 1024 / block_size};
  lesson06::PrefixEngine engine(model, options), alone(model, options);
  const kv::Request before = kvtest::with_system_prompt(shared, 9, 1);
  const kv::Request request = kvtest::with_system_prompt(shared, 30, 2);
  engine.generate({&before, 1});
  std::vector<int32_t> found, computed;
  lesson06::generate_in(found, engine, request);
  lesson06::generate_in(computed, alone, request);
  CHECK(engine.num_cached_tokens()[0] == shared / block_size * block_size);
  CHECK(alone.num_cached_tokens()[0] == 0);
  std::vector<lesson06::BlockPair> pairs;
  for (size_t i = 0; i < request.prompt.size() / static_cast<size_t>(block_size); ++i) {
    pairs.push_back({found.at(i), computed.at(i)});
  }
  const auto first = lesson05::regions_of(*engine.cache(), model.stream());
  const auto second = lesson05::regions_of(*alone.cache(), model.stream());
  CHECK(lesson06::compare_blocks({.first = &first, .second = &second, .pairs = pairs},
                                 model.stream()) == std::vector<int64_t>(pairs.size(), 0));
}

inline void check_hits(kv::Model& model) {
  for (const int block_size : {1, 16, 64}) {
    for (const int shared : {63, 64, 65, 130}) check_hit(model, block_size, shared);
  }
}

/// Sets one element of a block, as the device keeps it.
inline void set_element(void* rows, int64_t at, float x, const kv::Stream& stream) {
  if (stream.device() == kv::Device::kCpu) {
    kv::copy_to_device(static_cast<float*>(rows) + at, &x, sizeof x, stream);
  } else {
    const kv::BFloat16 half = kv::to_bfloat16(x);
    kv::copy_to_device(static_cast<kv::BFloat16*>(rows) + at, &half, sizeof half, stream);
  }
}

/// One pair in a cache of two layers, four elements to a block: what is found after each change.
inline void check_compare_pair(kv::Device device) {
  const kv::Stream stream(device);
  lesson03::PagedKvCache cache(kvtest::shape(2, 1, 2), stream, 3, 2);
  lesson03::fill_blocks(cache, 0, stream);
  const lesson06::BlockRegions regions = lesson05::regions_of(cache, stream);
  const auto set = [&](int region, int32_t id, int64_t at) {
    set_element(regions.list()[region].block(id), at, 1.0f, stream);
  };
  const lesson06::BlockPair pair{.first = 0, .second = 2};
  const auto differing = [&] {
    return lesson06::compare_blocks({.first = &regions, .second = &regions, .pairs = {&pair, 1}},
                                    stream)
        .at(0);
  };
  CHECK(differing() == 0);
  set(0, 2, 0);
  CHECK(differing() == 1);  // the first element of K in layer 0
  set(1, 2, 3);
  CHECK(differing() == 2);  // the last one of V
  set(2, 2, 1);
  CHECK(differing() == 3);  // one in layer 1
  set(0, 1, 0);
  CHECK(differing() == 3);  // block 1 is not of the pair
  set(0, 0, 0);
  CHECK(differing() == 2);  // equal again
  lesson03::PagedKvCache zeros(kvtest::shape(1, 8, 64), stream, 1, 16);
  lesson03::PagedKvCache ones(kvtest::shape(1, 8, 64), stream, 1, 16);
  lesson03::fill_blocks(zeros, 0, stream), lesson03::fill_blocks(ones, 0xFF, stream);
  const lesson06::BlockRegions first = lesson05::regions_of(zeros, stream),
                               second = lesson05::regions_of(ones, stream);
  const lesson06::BlockPair both{.first = 0, .second = 0};
  INFO("K and V of 16 rows of 512 elements, and all of them differ");
  CHECK(lesson06::compare_blocks({.first = &first, .second = &second, .pairs = {&both, 1}},
                                 stream) == std::vector<int64_t>{16'384});
}

inline void check_compare_blocks(kv::Device device) {
  const kv::Stream stream(device);
  for (const int block_size : {1, 3, 30}) {  // 10, 30 and 300 elements
    CAPTURE(block_size);
    constexpr int kLayers = 3, kWidth = 2 * 5;
    const auto config = kvtest::shape(kLayers, 2, 5);
    lesson03::PagedKvCache small(config, stream, 4, block_size),
        large(config, stream, 7, block_size);
    lesson03::fill_blocks(small, 0, stream), lesson03::fill_blocks(large, 0, stream);
    const lesson06::BlockRegions a = lesson05::regions_of(small, stream),
                                 b = lesson05::regions_of(large, stream);
    const auto set = [&](int region, int32_t id, int at, float x) {
      set_element(b.list()[region].block(id), at, x, stream);
    };
    const int last = block_size * kWidth - 1;
    set(0, 6, 0, 1.0f);                   // the first element of all
    set(2 * kLayers - 1, 6, last, 2.0f);  // and the last
    set(3, 5, last, -0.0f);               // equal as numbers, other bits
    set(4, 0, 0, 3.0f);                   // the only one of its block
    set(0, 3, 0, NAN);
    const std::vector<lesson06::BlockPair> pairs{{0, 6}, {3, 5}, {1, 4}, {2, 6}, {2, 0}};
    CHECK(lesson06::compare_blocks({.first = &a, .second = &b, .pairs = pairs}, stream) ==
          std::vector<int64_t>{2, 1, 0, 2, 1});
    const lesson06::BlockPair same{3, 3};  // a NaN is equal to itself
    CHECK(lesson06::compare_blocks({.first = &b, .second = &b, .pairs = {&same, 1}}, stream) ==
          std::vector<int64_t>{0});
    std::vector<lesson06::BlockPair> many;  // more than a machine has cores
    for (int i = 0; i < 100; ++i) many.push_back({i % 4, i % 7});
    const auto counts =
        lesson06::compare_blocks({.first = &a, .second = &b, .pairs = many}, stream);
    std::vector<int64_t> wanted;  // of b's blocks: the others are zero, as all of a's
    for (size_t i = 0; i < 100; ++i) wanted.push_back(std::array{1, 0, 0, 1, 0, 1, 2}[i % 7]);
    CHECK(counts == wanted);
    const lesson06::BlockPair missing{4, 0};
    CHECK_THROWS_WITH_AS(
        lesson06::compare_blocks({.first = &a, .second = &b, .pairs = {&missing, 1}}, stream),
        doctest::Contains("no block 4, the cache has 4"), std::out_of_range);
    const lesson03::PagedKvCache other(kvtest::shape(kLayers, 2, 6), stream, 4, block_size);
    const lesson06::BlockRegions wide = lesson05::regions_of(other, stream);
    CHECK_THROWS_AS(lesson06::compare_blocks({.first = &a, .second = &wide, .pairs = {}}, stream),
                    std::invalid_argument);  // also where no pair is named
  }
}

}  // namespace lesson06_test
