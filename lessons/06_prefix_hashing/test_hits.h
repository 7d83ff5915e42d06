#pragma once

// What compare_blocks is for: the K and V of a hit are those of computing anew. For a model on any
// device.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "compare_blocks.h"
#include "engine.h"
#include "tests/support/same_bits.h"

namespace lesson06_test {

/// Serves the request; the blocks that its prompt fills.
inline std::vector<int32_t> full_blocks(lesson06::PrefixEngine& engine,
                                        const kv::Request& request) {
  std::vector<int32_t> blocks;
  engine.generate({&request, 1}, [&](size_t, int32_t) {
    const auto ids = engine.manager()->table(engine.sequence_of(0)).block_ids();
    if (blocks.empty()) blocks.assign(ids.begin(), ids.end());
    return true;
  });
  blocks.resize(request.prompt.size() / static_cast<size_t>(engine.cache()->block_size()));
  return blocks;
}

/// Two requests with `shared` tokens in front: the second one's blocks, against those of an engine
/// that has seen it alone.
inline void check_hit(kv::Model& model, int block_size, int shared) {
  CAPTURE(block_size);
  CAPTURE(shared);
  const kv::EngineOptions options{.block_size = block_size, .num_blocks = 1024 / block_size};
  lesson06::PrefixEngine engine(model, options), alone(model, options);
  const kv::Request before = kvtest::with_system_prompt(shared, 9, 1);
  const kv::Request request = kvtest::with_system_prompt(shared, 30, 2);
  engine.generate({&before, 1});
  const std::vector<int32_t> hit = full_blocks(engine, request);
  CHECK(engine.num_cached_tokens()[0] == shared / block_size * block_size);
  const std::vector<int32_t> anew = full_blocks(alone, request);
  CHECK(alone.num_cached_tokens()[0] == 0);
  REQUIRE(hit.size() == anew.size());
  std::vector<lesson06::BlockPair> pairs;
  for (size_t i = 0; i < hit.size(); ++i) pairs.push_back({hit[i], anew[i]});
  CHECK(lesson06::compare_blocks({.first = engine.cache(), .second = alone.cache(), .pairs = pairs},
                                 model.stream()) == std::vector<int64_t>(hit.size(), 0));
}

inline void check_hits(kv::Model& model) {
  for (const int block_size : {1, 16, 64}) {
    for (const int shared : {63, 64, 65, 130}) check_hit(model, block_size, shared);
  }
}

}  // namespace lesson06_test
