// What is counted, and what must hold at every moment, spelled out: for tests, and for the page,
// which checks it after each command.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "lessons/06_prefix_hashing/kv_cache_manager.h"

namespace lesson06 {

void PrefixIndex::check() const {
  int cached = 0, chained = 0;
  for (const CachedBlock& block : blocks_) cached += block.next != CachedBlock::kNotCached;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (int32_t id = buckets_[bucket]; id != CachedBlock::kEnd; id = block(id)->next) {
      if (block(id) == nullptr || bucket_of(block(id)->hash) != bucket) {
        throw std::logic_error(fmt::format("block {} is in the wrong chain", id));
      }
      if (++chained > cached) throw std::logic_error("the index names a block twice");
    }
  }
  if (chained != cached || cached != size_) {
    throw std::logic_error(fmt::format("{} blocks are cached, the index names {} and counts {}",
                                       cached, chained, size_));
  }
}

void BlockPool::check() const {
  index_.check();
  const auto unused = std::ranges::count(ref_cnt_, 0);
  const bool all_free = std::ranges::all_of(free_, [&](int32_t id) { return ref_cnt(id) == 0; });
  if (unused != num_free() || !all_free) {
    throw std::logic_error(
        fmt::format("{} blocks have no reference, {} are free", unused, num_free()));
  }
}

std::unordered_map<int32_t, int> KvCacheManager::count_tables() const {
  std::unordered_map<int32_t, int> num_tables;
  for (const auto& [id, request] : requests_) {
    const BlockTable& table = request.table;
    if (table.num_blocks() != blocks_for(table.num_tokens(), block_size())) {
      throw std::logic_error(fmt::format("request {} has {} blocks for {} tokens", id,
                                         table.num_blocks(), table.num_tokens()));
    }
    for (const int32_t block : table.block_ids()) ++num_tables[block];
  }
  return num_tables;
}

void KvCacheManager::check() const {
  pool_->check();
  const auto num_tables = count_tables();
  for (const auto& [block, count] : num_tables) {
    if (pool_->ref_cnt(block) == count) continue;
    throw std::logic_error(fmt::format("block {} has ref count {}, but {} tables hold it", block,
                                       pool_->ref_cnt(block), count));
  }
  if (static_cast<int>(num_tables.size()) != pool_->num_used()) {
    throw std::logic_error(fmt::format("{} blocks are held, the pool counts {} used",
                                       num_tables.size(), pool_->num_used()));
  }
}

void CachingMetrics::observe(int queries, int hits) {
  PrefixCacheStats& oldest = window_[next_];
  recent_.requests += 1 - oldest.requests;
  recent_.queries += queries - oldest.queries;
  recent_.hits += hits - oldest.hits;
  oldest = {.requests = 1, .queries = queries, .hits = hits};
  next_ = (next_ + 1) % window_.size();
}

int64_t KvCacheManager::most_blocks(int64_t num_tokens) const {
  return (num_tokens + block_size() - 1) / block_size();
}

int64_t KvCacheManager::num_slots_used() const {
  // Only full blocks are shared: what is empty is in last blocks, and each has one holder.
  int64_t empty = 0;
  for (const auto& [id, request] : requests_) {
    if (request.table.num_blocks() > 0) empty += block_size() - request.table.last_block_fill();
  }
  return int64_t{pool_->num_used()} * block_size() - empty;
}

}  // namespace lesson06
