#pragma once

// Requests on a cache manager without a model. For the tests of this lesson and the next ones.

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "lessons/06_prefix_hashing/kv_cache_manager.h"
#include "tests/support/readable.h"

namespace lesson06_test {

using lesson06::BlockHashes;
using lesson06::ExtraKeys;
using lesson06::KvCacheManager;
using Tokens = std::vector<int32_t>;
using Ids = std::vector<int32_t>;

inline Tokens range(int32_t begin, int32_t end) {
  Tokens tokens(end - begin);
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

inline Ids table_of(const auto& manager, int64_t id) {
  const auto ids = manager.table(id).block_ids();
  return {ids.begin(), ids.end()};
}

/// The blocks of these tokens that the cache has.
inline lesson06::ComputedBlocks look_up(const auto& manager, const Tokens& tokens,
                                        const ExtraKeys& keys = {}) {
  BlockHashes hashes(keys);
  return manager.get_computed_blocks(tokens, hashes);
}
inline int found(const auto& manager, const Tokens& tokens, const ExtraKeys& keys = {}) {
  return look_up(manager, tokens, keys).num_tokens;
}

/// Gives a request the blocks that are found and slots for the rest, which is not written yet.
/// False if there is no room.
inline bool start(auto& manager, int64_t id, const Tokens& tokens, const ExtraKeys& keys = {}) {
  const auto computed = look_up(manager, tokens, keys);
  const int rest = static_cast<int>(tokens.size()) - computed.num_tokens;
  return manager.allocate_slots(id, rest, computed).has_value();
}

/// Makes the blocks of the request's first num_computed tokens findable.
inline void cache_blocks(auto& manager, int64_t id, const Tokens& tokens, int num_computed,
                         const ExtraKeys& keys = {}) {
  BlockHashes hashes(keys);
  manager.cache_blocks(id, tokens, hashes, num_computed);
}
/// The same for all its tokens.
inline void write(auto& manager, int64_t id, const Tokens& tokens, const ExtraKeys& keys = {}) {
  cache_blocks(manager, id, tokens, static_cast<int>(tokens.size()), keys);
  manager.check();
}

/// Starts and writes. Returns how many tokens were found.
inline int run(auto& manager, int64_t id, const Tokens& tokens, const ExtraKeys& keys = {}) {
  const int num_found = found(manager, tokens, keys);
  REQUIRE(start(manager, id, tokens, keys));
  write(manager, id, tokens, keys);
  return num_found;
}

/// Runs a request, and ends it.
inline int run_and_free(auto& manager, const Tokens& tokens, const ExtraKeys& keys = {}) {
  const int num_found = run(manager, -1, tokens, keys);
  manager.free(-1);
  manager.check();
  return num_found;
}

}  // namespace lesson06_test
