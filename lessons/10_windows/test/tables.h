#pragma once

// Requests on a KvCacheCoordinator without a model: the blocks that they hold, and blocks that are
// lost.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "kv_cache_coordinator.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "lessons/07_lru_eviction/test/queue_of.h"

namespace lesson10_test {

using lesson06_test::found;
using lesson06_test::Ids;
using lesson06_test::look_up;
using lesson06_test::range;
using lesson06_test::run;
using lesson06_test::run_and_free;
using lesson06_test::start;
using lesson06_test::Tokens;
using lesson06_test::write;
using lesson07_test::queue_of;
using lesson10::BlockPool;
using lesson10::KvCacheCoordinator;
using lesson10::KvCacheGroup;

/// A group of one layer for each window.
inline std::vector<KvCacheGroup> groups_of(const std::vector<int>& windows) {
  std::vector<KvCacheGroup> groups;
  for (size_t i = 0; i < windows.size(); ++i) {
    groups.push_back({.window = windows[i], .layers = {static_cast<int>(i)}});
  }
  return groups;
}

/// A pool of blocks of 4 tokens, and a coordinator.
struct Groups {
  explicit Groups(const std::vector<KvCacheGroup>& groups, int num_blocks = 100,
                  int max_new_tokens = 0, const lesson06::CacheManagerOptions& options = {})
      : pool(num_blocks, 4), manager(pool, groups, options, max_new_tokens) {}
  /// With a group for each window; the first is 0.
  explicit Groups(const std::vector<int>& windows, int num_blocks = 100, int max_new_tokens = 0,
                  const lesson06::CacheManagerOptions& options = {})
      : Groups(groups_of(windows), num_blocks, max_new_tokens, options) {}

  Ids table(int64_t id, int group) const {
    const auto ids = manager.table(id, group).block_ids();
    return {ids.begin(), ids.end()};
  }
  /// The request's tables in all groups.
  std::vector<Ids> tables(int64_t id) const {
    std::vector<Ids> all;
    for (int group = 0; group < manager.num_groups(); ++group) all.push_back(table(id, group));
    return all;
  }
  Ids queue() const { return queue_of(pool); }
  /// Evicts a free block, as if it had been taken for something else.
  void lose(int32_t block) {
    REQUIRE(pool.ref_cnt(block) == 0);
    Ids others = queue(), one(1);
    std::erase(others, block);
    pool.touch(others);
    REQUIRE(pool.get_new_blocks(one));
    REQUIRE(one[0] == block);
    pool.free_blocks(one);
    for (auto id = others.rbegin(); id != others.rend(); ++id) pool.free_blocks({&*id, 1});
  }
  /// Runs the tokens from `first` on one after the other, each computed before the next one.
  void decode(int64_t id, const Tokens& tokens, size_t first) {
    for (size_t n = first; n < tokens.size(); ++n) {
      REQUIRE(manager.allocate_slots(id, 1));
      write(manager, id, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n) + 1});
    }
  }

  /// Runs a request in chunks of 4 tokens to its end, and frees it. The pool has room for it at
  /// every moment. Returns the number of tokens that were found.
  int serve(const Tokens& tokens) {
    const auto computed = look_up(manager, tokens);
    const int size = static_cast<int>(tokens.size());
    int done = computed.num_tokens;
    CHECK(manager.num_blocks_to_allocate(computed, size - done) <= pool.num_free());
    for (const auto* hits = &computed; done < size; hits = &lesson06::kNone) {
      const int next = std::min(4, size - done);
      REQUIRE(manager.allocate_slots(1, next, *hits));
      done += next;
      write(manager, 1, {tokens.begin(), tokens.begin() + done});
    }
    manager.free(1);
    return computed.num_tokens;
  }

  BlockPool pool;
  KvCacheCoordinator manager;
};

}  // namespace lesson10_test
