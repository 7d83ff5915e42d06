#include "block_pool.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace lesson07 {

BlockPool::BlockPool(int num_blocks, int block_size, FreeOrder order)
    : order_(order), index_(num_blocks < 1 ? 0 : num_blocks + 1, block_size) {
  blocks_.resize(static_cast<size_t>(num_blocks) + 1);
  for (size_t id = 0; id < blocks_.size(); ++id) {
    blocks_[id].id = static_cast<int32_t>(id);
    if (id != kNullBlock) queue_.append(blocks_[id]);
  }
  blocks_[kNullBlock].ref_cnt = 1;  // forever
}

const KvBlock& BlockPool::block(int32_t id) const {
  if (id < 0 || id > num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return blocks_[id];
}

void BlockPool::check_id(int32_t id, const char* action) const {
  if (is_block(id)) return;
  block(id);  // throws for an unknown id
  throw std::logic_error(fmt::format("BlockPool: the null block is {}", action));
}

bool BlockPool::get_new_blocks(std::span<int32_t> ids) {
  if (ids.size() > queue_.size()) return false;
  for (int32_t& id : ids) {
    KvBlock& block = queue_.popleft();
    evict(block);
    block.ref_cnt = 1;
    id = block.id;
  }
  return true;
}

void BlockPool::evict(KvBlock& block) {
  if (!std::exchange(block.is_cached, false)) return;
  const uint64_t hash = *index_.erase(block.id);
  ++metrics_.num_evicted;
  metrics_.num_evicted_unused += block.num_hits == 0;
  tell({.kind = CacheEvent::Kind::kRemoved, .block_id = block.id, .hash = hash});
}

void BlockPool::evict_blocks(std::span<const int32_t> ids) {
  for (const int32_t id : ids) check_id(id, "evicted");
  for (const int32_t id : ids) evict(at(id));
}

void BlockPool::touch(std::span<const int32_t> ids) {
  for (const int32_t id : ids) check_id(id, "touched");
  for (const int32_t id : ids) {
    KvBlock& block = at(id);
    if (block.ref_cnt == 0) {
      queue_.remove(block);  // wherever it is in the queue
      ++metrics_.num_revived;
    }
    ++block.ref_cnt;
    ++block.num_hits;
  }
}

void BlockPool::free_blocks(std::span<const int32_t> ids) {
  for (const int32_t id : ids) check_id(id, "freed");
  // A negative count marks a block that this call has already named.
  for (size_t i = 0; i < ids.size(); ++i) {
    const int count = at(ids[i]).ref_cnt;
    at(ids[i]).ref_cnt = -count;
    if (count > 0) continue;
    for (const int32_t id : ids.first(i)) at(id).ref_cnt = std::abs(at(id).ref_cnt);
    throw std::logic_error(fmt::format("BlockPool: block {} is freed, but it is {}", ids[i],
                                       count < 0 ? "named twice" : "free"));
  }
  for (const int32_t id : ids) at(id).ref_cnt = -at(id).ref_cnt - 1;
  const auto goes_first = [&](int32_t id) {
    return order_ == FreeOrder::kUnhashedFirst && !at(id).is_cached;
  };
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {  // the tail before the head
    if (at(*id).ref_cnt == 0 && !goes_first(*id)) queue_.append(at(*id));
  }
  if (order_ == FreeOrder::kAppend) return;
  for (const int32_t id : ids) {  // the block put in front last is taken first
    if (at(id).ref_cnt == 0 && goes_first(id)) queue_.prepend(at(id));
  }
}

PrefixId BlockPool::cache_full_block(int32_t id, const BlockKey& key) {
  check_id(id, "cached");
  if (at(id).ref_cnt == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is cached, but it is free", id));
  }
  const PrefixId prefix = index_.insert(id, key);
  at(id).is_cached = true;
  at(id).num_hits = 0;
  ++metrics_.num_stored;
  tell({.kind = CacheEvent::Kind::kStored,
        .block_id = id,
        .hash = key.hash,
        .key = &key,
        .prefix = prefix});
  return prefix;
}

bool BlockPool::reset_prefix_cache() {
  if (num_used() > 0) return false;
  for (KvBlock& block : blocks_) {
    if (std::exchange(block.is_cached, false)) index_.erase(block.id);
  }
  tell({.kind = CacheEvent::Kind::kCleared});
  return true;
}

void BlockPool::tell(const CacheEvent& event) const {
  if (on_event_) on_event_(event);
}

void BlockPool::check() const {
  std::vector<int32_t> free;
  for (const KvBlock* block : queue_.all()) free.push_back(block->id);
  check_free(free);
  for (const KvBlock& block : blocks_) {
    if (block.is_cached != (index_.block(block.id) != nullptr)) {
      throw std::logic_error(fmt::format("block {} is {}cached, and the index says otherwise",
                                         block.id, block.is_cached ? "" : "not "));
    }
  }
  if (blocks_[kNullBlock].ref_cnt != 1 || blocks_[kNullBlock].is_cached) {
    throw std::logic_error("the null block is given out or cached");
  }
}

}  // namespace lesson07
