#include "sliding_window_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace lesson10 {

constexpr int32_t kNull = BlockPool::kNullBlock;

SlidingWindowManager::SlidingWindowManager(BlockPool& pool, int group, int window)
    : pool_(&pool),
      group_(group),
      window_(window),
      num_needed_(window > 0 ? blocks_for(window - 1, pool.block_size())
                             : std::numeric_limits<int>::max()) {
  if (group < 1 || window < 0) {
    throw std::invalid_argument(
        fmt::format("SlidingWindowManager: group {} with a window of {}, wanted at least 1 and 0",
                    group, window));
  }
}

int SlidingWindowManager::num_skipped_tokens(int num_computed) const {
  return window_ > 0 ? std::max(0, num_computed - window_ + 1) : 0;
}

std::vector<int32_t> SlidingWindowManager::find_longest_cache_hit(std::span<const int32_t> full,
                                                                  int64_t& num_refused) const {
  std::vector<int32_t> entries(full.size(), kNull);
  size_t end = full.size();
  int in_a_row = 0;  // consecutive blocks found, the last of them right before `end`
  for (size_t i = full.size(); i > 0 && in_a_row < num_needed_; --i) {
    const auto* const match =
        pool_->index().find(key_in_group(pool_->index(), full[i - 1], group_), &num_refused);
    if (match == nullptr) {
      end = i - 1;
      in_a_row = 0;
    } else {
      entries[i - 1] = match->id;
      ++in_a_row;
    }
  }
  entries.resize(end);
  return entries;
}

void SlidingWindowManager::add(int64_t id, std::span<const int32_t> entries) {
  const auto size = static_cast<int>(entries.size());
  // Null blocks are at the front and nowhere else.
  const auto num_null = static_cast<int>(std::ranges::count(entries, kNull));
  Request added{.table = BlockTable(pool_->block_size()), .num_null = num_null, .num_cached = size};
  std::ranges::copy(entries, added.table.extend(size * pool_->block_size()).begin());
  requests_.emplace(id, std::move(added));
  pool_->touch(entries.subspan(num_null));
}

std::span<const int32_t> SlidingWindowManager::skipped_blocks(int64_t id, int num_computed) const {
  const Request& of = request(id);
  const int end = num_skipped_tokens(num_computed) / pool_->block_size();
  return of.table.block_ids().subspan(of.num_null, std::max(end, of.num_null) - of.num_null);
}

void SlidingWindowManager::remove_skipped_blocks(int64_t id, int num_computed) {
  Request& of = requests_.at(id);
  const auto blocks = skipped_blocks(id, num_computed);
  pool_->free_blocks(blocks);
  for (size_t left = blocks.size(); left > 0; --left) of.table.replace(of.num_null++, kNull);
}

void SlidingWindowManager::cache_blocks(int64_t id, std::span<const int32_t> full, int num_blocks) {
  Request& of = requests_.at(id);
  for (; of.num_cached < num_blocks; ++of.num_cached) {
    if (of.num_cached < of.num_null) continue;  // it fell out before it was cached
    const size_t i = of.num_cached;
    pool_->cache_full_block(of.table.block_ids()[i], key_in_group(pool_->index(), full[i], group_));
  }
}

void SlidingWindowManager::free(int64_t id) {
  pool_->free_blocks(held_blocks(request(id)));
  requests_.erase(id);
}

void SlidingWindowManager::count_tables(lesson06::NumTables& num_tables) const {
  for (const auto& [id, of] : requests_) {
    const bool all_null = std::ranges::all_of(of.table.block_ids().first(of.num_null),
                                              [](int32_t block) { return block == kNull; });
    if (!all_null) {
      throw std::logic_error(fmt::format("request {} of group {} holds one of its first {} blocks",
                                         id, group_, of.num_null));
    }
    for (const int32_t block : held_blocks(of)) ++num_tables[block];
  }
}

const SlidingWindowManager::Request& SlidingWindowManager::request(int64_t id) const {
  const auto found = requests_.find(id);
  if (found != requests_.end()) return found->second;
  throw std::out_of_range(
      fmt::format("SlidingWindowManager: request {} has no table in group {}", id, group_));
}

}  // namespace lesson10
