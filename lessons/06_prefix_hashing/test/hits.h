#pragma once

// The K and V of a hit are those of computing anew. For a model on any device.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lessons/03_paged_blocks/cli/fill_blocks.h"
#include "lessons/03_paged_blocks/test/guards.h"
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
  CHECK(lesson06::compare_blocks({.first = engine.cache(), .second = alone.cache(), .pairs = pairs},
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
  const lesson06::BlockPair pair{.first = 0, .second = 2};
  const auto differing = [&] {
    return lesson06::compare_blocks({.first = &cache, .second = &cache, .pairs = {&pair, 1}},
                                    stream)
        .at(0);
  };
  CHECK(differing() == 0);
  set_element(cache.layer(0).piece(2, 0).data, 0, 1.0f, stream);
  CHECK(differing() == 1);  // the first element of K in layer 0
  set_element(cache.layer(0).piece(2, 1).data, 3, 1.0f, stream);
  CHECK(differing() == 2);  // the last one of V
  set_element(cache.layer(1).piece(2, 0).data, 1, 1.0f, stream);
  CHECK(differing() == 3);  // one in layer 1
  set_element(cache.layer(0).piece(1, 0).data, 0, 1.0f, stream);
  CHECK(differing() == 3);  // block 1 is not of the pair
  set_element(cache.layer(0).piece(0, 0).data, 0, 1.0f, stream);
  CHECK(differing() == 2);  // equal again
  lesson03::PagedKvCache zeros(kvtest::shape(1, 8, 64), stream, 1, 16);
  lesson03::PagedKvCache ones(kvtest::shape(1, 8, 64), stream, 1, 16);
  lesson03::fill_blocks(zeros, 0, stream), lesson03::fill_blocks(ones, 0xFF, stream);
  const lesson06::BlockPair both{.first = 0, .second = 0};
  INFO("K and V of 16 rows of 512 elements, and all of them differ");
  CHECK(lesson06::compare_blocks({.first = &zeros, .second = &ones, .pairs = {&both, 1}}, stream) ==
        std::vector<int64_t>{16'384});
}

inline void check_compare_blocks(kv::Device device) {
  const kv::Stream stream(device);
  for (const int block_size : {1, 3, 30}) {  // 10, 30 and 300 elements
    CAPTURE(block_size);
    constexpr int kLayers = 3, kWidth = 2 * 5;
    const auto config = kvtest::shape(kLayers, 2, 5);
    lesson03::PagedKvCache a(config, stream, 4, block_size);
    lesson03::PagedKvCache b(config, stream, 7, block_size, /*guard_rows=*/1);
    lesson03::fill_blocks(a, 0, stream), lesson03::fill_blocks(b, 0, stream);
    const int last = block_size * kWidth - 1;
    set_element(b.layer(0).piece(6, 0).data, 0, 1.0f, stream);  // the first element of all
    set_element(b.layer(kLayers - 1).piece(6, 1).data, last, 2.0f, stream);  // and the last
    set_element(b.layer(1).piece(5, 1).data, last, -0.0f, stream);  // equal as numbers, other bits
    set_element(b.layer(2).piece(0, 0).data, 0, 3.0f, stream);      // the only one of its block
    set_element(b.layer(0).piece(3, 0).data, 0, NAN, stream);
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
    lesson03::PagedKvCache wide(kvtest::shape(kLayers, 2, 6), stream, 4, block_size);
    CHECK_THROWS_AS(lesson06::compare_blocks({.first = &a, .second = &wide, .pairs = {}}, stream),
                    std::invalid_argument);  // also where no pair is named
  }
}

/// Blocks of FP8: an element is a byte, and so is a scale.
inline void check_compare_fp8(kv::Device device) {
  const kv::Stream stream(device);
  for (const int block_size : {1, 3, 30}) {
    CAPTURE(block_size);
    const auto config = kvtest::shape(2, 2, 5);
    lesson03::PagedKvCache a(config, stream, 3, block_size, 0, kv::KvFormat::kFp8);
    lesson03::PagedKvCache b(config, stream, 4, block_size, 1, kv::KvFormat::kFp8);
    lesson03::fill_blocks(a, 0, stream), lesson03::fill_blocks(b, 0, stream);
    const lesson06::BlockPair pair{.first = 0, .second = 3};
    int64_t wanted = 0;
    for (const int layer : {0, 1}) {
      for (int i = 0; i < 3; ++i) {
        const lesson03::Piece piece = b.layer(layer).piece(3, i);
        for (std::byte* const at : {piece.data, piece.data + 1, piece.data + piece.bytes - 1}) {
          kv::fill_bytes(at, 1, 1, stream);
          CHECK(lesson06::compare_blocks({.first = &a, .second = &b, .pairs = {&pair, 1}},
                                         stream) == std::vector<int64_t>{++wanted});
        }
      }
    }
    lesson03::PagedKvCache wide(config, stream, 3, block_size);
    CHECK_THROWS_AS(
        lesson06::compare_blocks({.first = &a, .second = &wide, .pairs = {&pair, 1}}, stream),
        std::invalid_argument);
  }
}

}  // namespace lesson06_test
