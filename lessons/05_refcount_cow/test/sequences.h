#pragma once

// Sequences of a BlockManager, as its tests make them.

#include <doctest/doctest.h>

#include "block_manager.h"

namespace lesson05_test {

inline bool append(lesson05::BlockManager& manager, int seq, int num_tokens) {
  const lesson05::Growth growth{.seq = seq, .num_tokens = num_tokens};
  return manager.append({&growth, 1});
}

inline int new_sequence(lesson05::BlockManager& manager, int num_tokens) {
  const int seq = manager.add_sequence();
  REQUIRE(append(manager, seq, num_tokens));
  return seq;
}

}  // namespace lesson05_test
