#pragma once

// One manager for each group. A request gets slots in all groups or in none, and begins with a
// prefix that all of them have. Source: vLLM's HybridKVCacheCoordinator (v0.22.1:
// vllm/v1/core/kv_cache_coordinator.py).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv_cache_groups.h"
#include "lessons/06_prefix_hashing/kv_cache_manager.h"
#include "sliding_window_manager.h"

namespace lesson10 {

using lesson06::BlockHashes;
using lesson06::CacheManagerOptions;
using lesson06::ComputedBlocks;
using lesson06::KvCacheManager;

/// Has lesson 06's manager for group 0, which proves every prefix, and a SlidingWindowManager for
/// each other group. Its functions do for all groups together what lesson 06's do for one.
///
/// ComputedBlocks::block_ids are here [num_groups, chain.num_blocks], group after group.
class KvCacheCoordinator {
 public:
  /// Borrows the pool; a block of it may serve any group. No request gets more than max_new_tokens
  /// slots at once, which bounds max_blocks(); 0 means no limit. Throws std::invalid_argument
  /// unless group 0 is there and has no window.
  KvCacheCoordinator(BlockPool& pool, std::vector<KvCacheGroup> groups,
                     const CacheManagerOptions& options = {}, int max_new_tokens = 0);

  /// The longest prefix that every group has: group 0 all of it, the others what the next query
  /// sees. Each group may shorten what the group before it has found, so the groups are asked again
  /// until nothing changes.
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens, BlockHashes& hashes) const;

  /// First gives back the blocks that have fallen out of the request's windows: all its tokens that
  /// have a slot are computed by now. Blocks that become free by this count as free. Returns group
  /// 0's new blocks. If memory runs out, a request that begins holds nothing, and one that grows
  /// has to be freed: some of its groups may have grown.
  std::optional<std::span<const int32_t>> allocate_slots(
      int64_t id, int num_new_tokens, const ComputedBlocks& computed = lesson06::kNone);

  void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                    int num_computed);
  void free(int64_t id);
  bool reset_prefix_cache() { return full_.reset_prefix_cache(); }

  bool holds(int64_t id) const { return full_.holds(id); }
  const BlockTable& table(int64_t id) const { return full_.table(id); }  // group 0's
  /// Throws std::out_of_range for a group that does not exist; so does first_block().
  const BlockTable& table(int64_t id, int group) const;
  /// The number of null blocks at the front of a group's table.
  int first_block(int64_t id, int group) const;
  int num_groups() const { return static_cast<int>(groups_.size()); }
  const std::vector<KvCacheGroup>& groups() const { return groups_; }
  const KvCacheManager& full() const { return full_; }  // group 0's
  const BlockPool& pool() const { return *pool_; }
  int block_size() const { return full_.block_size(); }
  int64_t max_blocks(int64_t num_tokens) const;
  /// Later tokens reuse the blocks that have fallen out by then, so a group counts at most the
  /// blocks that it holds at once.
  int64_t num_blocks_to_allocate(const ComputedBlocks& computed, int num_new_tokens) const;
  int64_t num_slots_used() const;
  void check() const;

 private:
  std::optional<std::span<const int32_t>> grow(int64_t id, int num_new_tokens);
  std::optional<std::span<const int32_t>> start(int64_t id, int num_new_tokens,
                                                const ComputedBlocks& computed);
  std::optional<std::span<const int32_t>> extend(int64_t id, int num_new_tokens,
                                                 const ComputedBlocks& in_full = lesson06::kNone);

  BlockPool* pool_;
  std::vector<KvCacheGroup> groups_;
  bool caching_;
  int max_new_tokens_;
  KvCacheManager full_;                        // of group 0
  std::vector<SlidingWindowManager> sliding_;  // [num_groups - 1], of group 1 and after
};

}  // namespace lesson10
