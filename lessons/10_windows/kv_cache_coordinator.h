#pragma once

// One manager for each group, and what they must agree on: a request gets slots in all groups or in
// none, and begins with what all of them have. Source: vLLM's HybridKVCacheCoordinator (v0.22.1:
// vllm/v1/core/kv_cache_coordinator.py).

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache_groups.h"
#include "lessons/06_prefix_hashing/kv_cache_manager.h"
#include "sliding_window_manager.h"

namespace lesson10 {

using lesson06::BlockHashes;
using lesson06::CacheManagerOptions;
using lesson06::ComputedBlocks;
using lesson07::KvCacheManager;

/// Lesson 06's manager is that of group 0, and proves every prefix; the others are
/// SlidingWindowManagers. To the scheduler it is one manager. With one group it is lesson 06's.
///
/// ComputedBlocks::block_ids are here [num_groups, chain.num_blocks], and what allocate_slots()
/// returns is [num_groups, new blocks]: group after group.
class KvCacheCoordinator : public KvCacheManager {
 public:
  /// Borrows the pool, whose blocks are those of any group. `max_new_tokens`: no request gets more
  /// slots at once; 0: no limit (most_blocks() asks). Throws std::invalid_argument unless group 0
  /// is there and has no window.
  KvCacheCoordinator(BlockPool& pool, std::vector<KvCacheGroup> groups,
                     const CacheManagerOptions& options = {}, int max_new_tokens = 0);

  /// The longest prefix that every group has: group 0 all of it, the others what the next query
  /// sees. Each group may shorten what the one before it has found, so they are asked again until
  /// nothing changes.
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens, BlockHashes& hashes,
                                     bool skip_reading = false) const override;

  /// First of all, what has fallen out of the request's windows is given back: all tokens that have
  /// a slot are computed by now. What becomes free by this counts as free.
  std::optional<std::span<const int32_t>> allocate_slots(
      int64_t id, int num_new_tokens, const ComputedBlocks& computed = lesson06::kNone,
      int must_fit = 0) override;

  void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                    int num_computed) override;
  void free(int64_t id) override;

  int64_t most_blocks(int64_t num_tokens) const override;
  int64_t num_slots_used() const override;

  int num_groups() const { return static_cast<int>(groups_.size()); }
  const std::vector<KvCacheGroup>& groups() const { return groups_; }
  using KvCacheManager::table;  // group 0's
  const BlockTable& table(int64_t id, int group) const;
  /// Entries in front of a group's table that are null blocks.
  int first_block(int64_t id, int group) const;

 private:
  std::optional<std::span<const int32_t>> grow(int64_t id, int num_new_tokens);
  std::optional<std::span<const int32_t>> start(int64_t id, int num_new_tokens,
                                                const ComputedBlocks& computed, int must_fit);
  std::span<const int32_t> extend(int64_t id, int num_tokens, int num_blocks);
  std::unordered_map<int32_t, int> count_tables() const override;

  int64_t most_in_group(size_t group, int64_t num_tokens) const;
  const SlidingWindowManager& sliding(int group) const;

  std::vector<KvCacheGroup> groups_;
  std::vector<SlidingWindowManager> sliding_;  // [num_groups - 1], of group 1 and after
  int max_blocks_per_request_, max_new_tokens_;
};

}  // namespace lesson10
