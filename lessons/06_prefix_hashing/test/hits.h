#pragma once

// The K and V of a hit are those of computing anew. For a model on any device.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "lessons/06_prefix_hashing/program/compare_blocks.h"
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
  for (size_t i = 0; i < request.prompt.size() / static_cast<size_t>(block_size); ++i) {
    CHECK(lesson06::num_differing(*engine.cache(), found.at(i), *alone.cache(), computed.at(i),
                                  model.stream()) == 0);
  }
}

inline void check_hits(kv::Model& model) {
  for (const int block_size : {1, 16, 64}) {
    for (const int shared : {63, 64, 65, 130}) check_hit(model, block_size, shared);
  }
}

}  // namespace lesson06_test
