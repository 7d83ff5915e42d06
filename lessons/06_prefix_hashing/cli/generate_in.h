#pragma once

// A request, and the blocks that it got: for the attack and for tests, which compare them.

#include <vector>

#include "lessons/06_prefix_hashing/engine.h"

namespace lesson06 {

/// Generates, and sets `blocks` to the request's blocks.
inline kv::GenerateResult generate_in(std::vector<int32_t>& blocks, PrefixEngine& engine,
                                      const kv::Request& request) {
  return engine.generate({&request, 1}, [&](size_t, int32_t) {
    const auto ids = engine.manager()->table(0).block_ids();
    blocks.assign(ids.begin(), ids.end());
    return true;
  });
}

}  // namespace lesson06
