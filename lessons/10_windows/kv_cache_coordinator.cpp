#include "kv_cache_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/defer.h"
#include "lessons/05_refcount_cow/check_ref_counts.h"

namespace lesson10 {
namespace {

/// One group's share of the blocks that were found.
std::span<const int32_t> hits_of(const ComputedBlocks& computed, size_t group) {
  const size_t num_hits = computed.chain.num_blocks;
  return std::span(computed.block_ids).subspan(group * num_hits, num_hits);
}

}  // namespace

KvCacheCoordinator::KvCacheCoordinator(BlockPool& pool, std::vector<KvCacheGroup> groups,
                                       const CacheManagerOptions& options, int max_new_tokens)
    : pool_(&pool),
      groups_(std::move(groups)),
      caching_(options.caching),
      max_new_tokens_(max_new_tokens),
      full_(pool, options) {
  if (groups_.empty() || groups_[0].window != 0) {
    throw std::invalid_argument("KvCacheCoordinator: wanted a group 0, and no window for it");
  }
  for (int group = 1; group < num_groups(); ++group) {
    sliding_.emplace_back(pool, group, groups_[group].window);
  }
}

ComputedBlocks KvCacheCoordinator::get_computed_blocks(std::span<const int32_t> tokens,
                                                       BlockHashes& hashes) const {
  ComputedBlocks computed = full_.get_computed_blocks(tokens, hashes);
  if (sliding_.empty() || computed.block_ids.empty()) return computed;
  std::vector<int32_t>& full = computed.block_ids;
  std::vector<std::vector<int32_t>> found(sliding_.size());
  // A group's hit is valid until another group finds less; then the group is asked again.
  size_t agreed = 0;  // groups in a row that have found just full.size() blocks
  for (size_t i = 0; agreed < sliding_.size(); i = (i + 1) % sliding_.size()) {
    found[i] = sliding_[i].find_longest_cache_hit(full, computed.num_refused);
    agreed = found[i].size() == full.size() ? agreed + 1 : 1;
    full.resize(found[i].size());
  }
  const auto num_blocks = static_cast<int>(full.size());
  computed.num_tokens = num_blocks * block_size();
  computed.chain = {num_blocks, std::nullopt};
  if (num_blocks > 0) computed.chain.prefix = pool_->index().block(full.back())->prefix;
  for (const auto& entries : found) full.insert(full.end(), entries.begin(), entries.end());
  return computed;
}

std::optional<std::span<const int32_t>> KvCacheCoordinator::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed) {
  if (holds(id)) {
    if (!computed.block_ids.empty()) full_.allocate_slots(id, num_new_tokens, computed);  // throws
    return grow(id, num_new_tokens);
  }
  if (num_new_tokens < 0) {
    throw std::invalid_argument(
        fmt::format("KvCacheCoordinator: request {} wants {} tokens", id, num_new_tokens));
  }
  return start(id, num_new_tokens, computed);
}

/// Frees the blocks that have fallen out, once it is clear that the new ones fit.
std::optional<std::span<const int32_t>> KvCacheCoordinator::grow(int64_t id, int num_new_tokens) {
  const int num_computed = table(id).num_tokens();
  const int needed = table(id).blocks_to_extend(num_new_tokens);
  int64_t free = pool_->num_free();
  for (const SlidingWindowManager& group : sliding_) {
    free += std::ranges::count_if(group.skipped_blocks(id, num_computed), [&](int32_t block) {
      return pool_->ref_cnt(block) == 1;  // no other request holds it
    });
  }
  if (int64_t{needed} * num_groups() > free) return std::nullopt;
  for (SlidingWindowManager& group : sliding_) group.remove_skipped_blocks(id, num_computed);
  return extend(id, num_new_tokens);
}

std::optional<std::span<const int32_t>> KvCacheCoordinator::start(int64_t id, int num_new_tokens,
                                                                  const ComputedBlocks& computed) {
  const int num_hits = computed.chain.num_blocks;
  const int64_t num_tokens = int64_t{computed.num_tokens} + num_new_tokens;
  const int64_t num_new_blocks = full_.max_blocks(num_tokens) - num_hits;
  const int64_t revived = lesson06::num_revived(*pool_, computed.block_ids);
  if (num_new_blocks * num_groups() + revived > pool_->num_free()) return std::nullopt;
  bool done = false;
  const kv::Defer undo{[&] {
    if (done) return;
    if (full_.holds(id)) full_.free(id);
    for (SlidingWindowManager& group : sliding_) {
      if (group.holds(id)) group.free(id);
    }
  }};
  // Hits of all groups are pinned before new blocks are taken.
  for (size_t i = 0; i < sliding_.size(); ++i) sliding_[i].add(id, hits_of(computed, i + 1));
  ComputedBlocks in_full = computed;
  in_full.block_ids.resize(num_hits);
  const auto fresh = extend(id, num_new_tokens, in_full);
  done = true;
  return fresh;
}

/// Takes new blocks for each group; the pool has them.
std::optional<std::span<const int32_t>> KvCacheCoordinator::extend(int64_t id, int num_new_tokens,
                                                                   const ComputedBlocks& in_full) {
  const auto fresh = full_.allocate_slots(id, num_new_tokens, in_full);
  for (SlidingWindowManager& group : sliding_) group.extend(id, num_new_tokens);
  return fresh;
}

void KvCacheCoordinator::cache_blocks(int64_t id, std::span<const int32_t> tokens,
                                      BlockHashes& hashes, int num_computed) {
  full_.cache_blocks(id, tokens, hashes, num_computed);
  if (!caching_) return;
  for (SlidingWindowManager& group : sliding_) {
    group.cache_blocks(id, table(id).block_ids(), num_computed / block_size());
  }
}

void KvCacheCoordinator::free(int64_t id) {
  full_.free(id);
  for (SlidingWindowManager& group : sliding_) group.free(id);
}

int64_t KvCacheCoordinator::max_blocks(int64_t num_tokens) const {
  int64_t blocks = 0;
  for (const KvCacheGroup& group : groups_) {
    blocks += lesson10::max_blocks(group, block_size(), num_tokens, max_new_tokens_);
  }
  return blocks;
}

int64_t KvCacheCoordinator::num_blocks_to_allocate(const ComputedBlocks& computed,
                                                   int num_new_tokens) const {
  const int64_t num_tokens = int64_t{computed.num_tokens} + num_new_tokens;
  const int64_t needed = full_.max_blocks(num_tokens) - computed.chain.num_blocks;
  int64_t blocks = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t revived = lesson06::num_revived(*pool_, hits_of(computed, group));
    blocks += std::min(needed + revived, lesson10::max_blocks(groups_[group], block_size(),
                                                              num_tokens, max_new_tokens_));
  }
  return blocks;
}

int64_t KvCacheCoordinator::num_slots_used() const {
  // Each group's last block is as empty as group 0's.
  const int64_t slots = int64_t{pool_->num_used()} * block_size();
  return slots - num_groups() * (slots - full_.num_slots_used());
}

const BlockTable& KvCacheCoordinator::table(int64_t id, int group) const {
  return group == 0 ? full_.table(id) : sliding_.at(group - 1).table(id);
}

int KvCacheCoordinator::first_block(int64_t id, int group) const {
  return group == 0 ? 0 : sliding_.at(group - 1).first_block(id);
}

void KvCacheCoordinator::check() const {
  pool_->check();
  lesson06::NumTables num_tables;
  full_.count_tables(num_tables);
  for (const SlidingWindowManager& group : sliding_) group.count_tables(num_tables);
  lesson05::check_ref_counts(*pool_, num_tables);
}

}  // namespace lesson10
