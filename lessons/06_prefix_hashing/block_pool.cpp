#include "block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lesson06 {

void CachePool::check_free(std::span<const int32_t> free) const {
  index().check();
  std::vector<bool> is_free(index().num_ids());
  for (const int32_t id : free) is_free.at(id) = true;
  for (int32_t id = 0; id < index().num_ids(); ++id) {
    if (is_free[id] == (ref_cnt(id) <= 0)) continue;
    throw std::logic_error(fmt::format("block {} has ref count {} and is {}free", id, ref_cnt(id),
                                       is_free[id] ? "" : "not "));
  }
  const auto distinct = std::ranges::count(is_free, true);
  if (distinct != num_free() || distinct != std::ssize(free)) {
    throw std::logic_error(
        fmt::format("{} blocks are free, the pool counts {}", distinct, num_free()));
  }
}

BlockPool::BlockPool(int num_blocks, int block_size, PrefixIndex::Check check)
    : index_(num_blocks, block_size, check), ref_cnt_(num_blocks) {
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 is taken first
}

int BlockPool::ref_cnt(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return ref_cnt_[id];
}

bool BlockPool::get_new_blocks(std::span<int32_t> ids) {
  if (ids.size() > free_.size()) return false;
  for (int32_t& id : ids) {
    id = free_.back();
    free_.pop_back();
    index_.erase(id);
    refs(id) = 1;
  }
  return true;
}

void BlockPool::touch(std::span<const int32_t> ids) {
  for (const int32_t id : ids) ref_cnt(id);  // throws for an unknown one
  for (const int32_t id : ids) {
    if (refs(id)++ == 0) std::erase(free_, id);
  }
}

void BlockPool::free_blocks(std::span<const int32_t> ids) {
  for (auto id = ids.begin(); id != ids.end(); ++id) {
    const bool twice = std::find(ids.begin(), id, *id) != id;
    if (ref_cnt(*id) > 0 && !twice) continue;
    throw std::logic_error(fmt::format("BlockPool: block {} is freed, but it is {}", *id,
                                       twice ? "named twice" : "free"));
  }
  // The tail is pushed last, so it is on top.
  for (const int32_t id : ids) {
    if (--refs(id) == 0) free_.push_back(id);
  }
}

PrefixId BlockPool::cache_full_block(int32_t id, const BlockKey& key) {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is cached, but it is free", id));
  }
  return index_.insert(id, key);
}

bool BlockPool::reset_prefix_cache() {
  if (num_used() > 0) return false;
  for (int32_t id = 0; id < num_blocks(); ++id) index_.erase(id);
  return true;
}

}  // namespace lesson06
