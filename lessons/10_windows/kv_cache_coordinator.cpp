#include "kv_cache_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"

namespace lesson10 {

KvCacheCoordinator::KvCacheCoordinator(BlockPool& pool, std::vector<KvCacheGroup> groups,
                                       const CacheManagerOptions& options, int max_new_tokens)
    : KvCacheManager(pool, options),
      groups_(std::move(groups)),
      max_blocks_per_request_(options.max_blocks_per_request),
      max_new_tokens_(max_new_tokens) {
  if (groups_.empty() || groups_[0].window != 0) {
    throw std::invalid_argument("KvCacheCoordinator: wanted a group 0, and no window for it");
  }
  for (int group = 1; group < num_groups(); ++group) {
    sliding_.emplace_back(pool, group, groups_[static_cast<size_t>(group)].window);
  }
}

ComputedBlocks KvCacheCoordinator::get_computed_blocks(std::span<const int32_t> tokens,
                                                       BlockHashes& hashes,
                                                       bool skip_reading) const {
  ComputedBlocks computed = KvCacheManager::get_computed_blocks(tokens, hashes, skip_reading);
  if (sliding_.empty() || computed.block_ids.empty()) return computed;
  std::vector<int32_t>& full = computed.block_ids;
  std::vector<std::vector<int32_t>> found(sliding_.size());
  // What a group has found stands until another one finds less: it is looked for again then.
  size_t agreed = 0;  // groups in a row that have found just so many blocks
  for (size_t i = 0; agreed < sliding_.size(); i = (i + 1) % sliding_.size()) {
    found[i] = sliding_[i].find_longest_cache_hit(full, computed.num_refused);
    agreed = found[i].size() == full.size() ? agreed + 1 : 1;
    full.resize(found[i].size());
  }
  const auto num_blocks = static_cast<int>(full.size());
  computed.num_tokens = num_blocks * block_size();
  computed.chain = {num_blocks, std::nullopt};
  if (num_blocks > 0) computed.chain.prefix = pool().index().block(full.back())->prefix;
  for (const auto& entries : found) full.insert(full.end(), entries.begin(), entries.end());
  return computed;
}

std::optional<std::span<const int32_t>> KvCacheCoordinator::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed, int must_fit) {
  if (sliding_.empty() || (holds(id) && !computed.block_ids.empty())) {  // the latter it refuses
    return KvCacheManager::allocate_slots(id, num_new_tokens, computed, must_fit);
  }
  return holds(id) ? grow(id, num_new_tokens) : start(id, num_new_tokens, computed, must_fit);
}

/// What has fallen out is freed, but not before it is clear that the rest will succeed.
std::optional<std::span<const int32_t>> KvCacheCoordinator::grow(int64_t id, int num_new_tokens) {
  BlockTable& full = held(id).table;
  const int num_computed = full.num_tokens();
  const int needed = full.blocks_to_extend(num_new_tokens);
  int64_t free = pool_->num_free();
  for (const SlidingWindowManager& group : sliding_) {
    free += std::ranges::count_if(group.skipped_blocks(id, num_computed), [&](int32_t block) {
      return pool_->ref_cnt(block) == 1;  // nobody else holds it
    });
  }
  if (int64_t{needed} * num_groups() > free) return std::nullopt;
  full.reserve(static_cast<size_t>(full.num_blocks() + needed));
  for (SlidingWindowManager& group : sliding_) group.reserve(id, needed);
  // From here on nothing can fail.
  for (SlidingWindowManager& group : sliding_) group.remove_skipped_blocks(id, num_computed);
  return extend(id, num_new_tokens, needed);
}

std::optional<std::span<const int32_t>> KvCacheCoordinator::start(int64_t id, int num_new_tokens,
                                                                  const ComputedBlocks& computed,
                                                                  int must_fit) {
  const auto num_hits = static_cast<size_t>(computed.chain.num_blocks);
  const auto entries = [&](size_t group) {
    return std::span(computed.block_ids).subspan(group * num_hits, num_hits);
  };
  Request request{.table = BlockTable(block_size()), .chain = computed.chain};
  request.table.extend(computed.num_tokens, entries(0));
  const int needed = request.table.blocks_to_extend(num_new_tokens);
  const int to_fit = std::max(needed, request.table.blocks_to_extend(must_fit));
  int64_t wanted = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    // A hit on a free block takes one from the free ones, too.
    const int64_t revived = std::ranges::count_if(
        entries(group), [&](int32_t block) { return pool_->ref_cnt(block) == 0; });
    // Later tokens take the blocks of those that will have fallen out by then.
    const int64_t most = most_in_group(group, int64_t{computed.num_tokens} + must_fit);
    wanted += std::max(needed + revived, std::min(to_fit + revived, most));
  }
  if (wanted > pool_->num_free()) return std::nullopt;

  bool done = false;
  const kv::AtEnd undo{[&] {
    for (SlidingWindowManager& group : sliding_) {
      if (!done) group.forget(id);
    }
  }};
  const int room = std::max(computed.chain.num_blocks + needed, max_blocks_per_request_);
  for (size_t i = 0; i < sliding_.size(); ++i) sliding_[i].add(id, entries(i + 1), room);
  add(id, std::move(request), computed, needed);
  done = true;
  // From here on nothing can fail. Hits of all groups are pinned before anything else is taken.
  for (const int32_t block : computed.block_ids) {
    if (block != BlockPool::kNullBlock) pool_->touch({&block, 1});
  }
  return extend(id, num_new_tokens, needed);
}

/// Cannot fail: so many blocks are free, and the tables have room for them.
std::span<const int32_t> KvCacheCoordinator::extend(int64_t id, int num_tokens, int num_blocks) {
  const auto size = static_cast<size_t>(num_blocks);
  const auto fresh = std::span(new_blocks_).first(size * groups_.size());
  pool_->get_new_blocks(fresh);
  held(id).table.extend(num_tokens, fresh.first(size));
  for (size_t i = 0; i < sliding_.size(); ++i) {
    sliding_[i].extend(id, num_tokens, fresh.subspan((i + 1) * size, size));
  }
  return fresh;
}

void KvCacheCoordinator::cache_blocks(int64_t id, std::span<const int32_t> tokens,
                                      BlockHashes& hashes, int num_computed) {
  KvCacheManager::cache_blocks(id, tokens, hashes, num_computed);
  const Request& full = held(id);  // a chain of no blocks, if nothing is cached
  for (SlidingWindowManager& group : sliding_) {
    group.cache_blocks(id, full.table.block_ids(), full.chain.num_blocks);
  }
}

void KvCacheCoordinator::free(int64_t id) {
  KvCacheManager::free(id);
  for (SlidingWindowManager& group : sliding_) group.free(id);
}

int64_t KvCacheCoordinator::most_in_group(size_t group, int64_t num_tokens) const {
  return group == 0 ? KvCacheManager::most_blocks(num_tokens)
                    : sliding_[group - 1].most_blocks(num_tokens, max_new_tokens_);
}

int64_t KvCacheCoordinator::most_blocks(int64_t num_tokens) const {
  int64_t most = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    most += most_in_group(group, num_tokens);
  }
  return most;
}

int64_t KvCacheCoordinator::num_slots_used() const {
  // Each group's last block is as empty as group 0's.
  const int64_t slots = int64_t{pool().num_used()} * block_size();
  return slots - num_groups() * (slots - KvCacheManager::num_slots_used());
}

const SlidingWindowManager& KvCacheCoordinator::sliding(int group) const {
  if (group < 1 || group >= num_groups()) {
    throw std::out_of_range(
        fmt::format("KvCacheCoordinator: there is no group {} that slides, "
                    "there are {} with group 0",
                    group, num_groups()));
  }
  return sliding_[static_cast<size_t>(group) - 1];
}

const BlockTable& KvCacheCoordinator::table(int64_t id, int group) const {
  return group == 0 ? KvCacheManager::table(id) : sliding(group).table(id);
}

int KvCacheCoordinator::first_block(int64_t id, int group) const {
  return group == 0 ? 0 : sliding(group).first_block(id);
}

std::unordered_map<int32_t, int> KvCacheCoordinator::count_tables() const {
  auto num_tables = KvCacheManager::count_tables();
  for (const SlidingWindowManager& group : sliding_) group.count_tables(num_tables);
  return num_tables;
}

}  // namespace lesson10
