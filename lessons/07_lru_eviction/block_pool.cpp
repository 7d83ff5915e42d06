#include "block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace lesson07 {

BlockPool::BlockPool(int num_blocks, int block_size, FreeOrder order, int hash_bits)
    : block_size_(block_size), order_(order) {
  if (num_blocks < 1 || block_size < 1 || hash_bits < 0) {
    throw std::invalid_argument(
        fmt::format("BlockPool: {} blocks of {} tokens, {} bits of hash, wanted at least 1, 1, 0",
                    num_blocks, block_size, hash_bits));
  }
  if (hash_bits < kAllBits) hash_mask_ = (uint64_t{1} << hash_bits) - 1;
  blocks_.resize(static_cast<size_t>(num_blocks) + 1);
  contents_.resize(blocks_.size());
  tokens_.resize(blocks_.size() * static_cast<size_t>(block_size));
  buckets_.resize(std::bit_ceil(2 * blocks_.size()));
  for (size_t id = 0; id < blocks_.size(); ++id) {
    blocks_[id].id = static_cast<int32_t>(id);
    if (id != kNullBlock) queue_.append(blocks_[id]);
  }
  blocks_[kNullBlock].ref_cnt = 1;  // for ever
}

const KvBlock& BlockPool::block(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= blocks_.size()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return blocks_[static_cast<size_t>(id)];
}

std::span<const int32_t> BlockPool::tokens(int32_t id) const {
  return block(id).is_cached ? tokens_of(block(id)) : std::span<const int32_t>();
}

std::optional<PrefixId> BlockPool::prefix(int32_t id) const {
  if (!block(id).is_cached) return std::nullopt;
  return contents_[static_cast<size_t>(id)].prefix;
}

KvBlock& BlockPool::find_block(int32_t id, const char* action) {
  if (id == kNullBlock) {
    throw std::logic_error(fmt::format("BlockPool: the null block is {}", action));
  }
  return const_cast<KvBlock&>(block(id));
}

std::optional<std::vector<int32_t>> BlockPool::get_new_blocks(int n) {
  if (n < 0) throw std::invalid_argument(fmt::format("BlockPool: {} new blocks", n));
  if (n > num_free()) return std::nullopt;
  std::vector<int32_t> ids(static_cast<size_t>(n));
  get_new_blocks(std::span(ids));
  return ids;
}

bool BlockPool::get_new_blocks(std::span<int32_t> ids) {
  if (ids.size() > queue_.size()) return false;
  expect_events(ids.size());
  ++clock_;
  for (int32_t& id : ids) {
    KvBlock& block = choose_victim_ ? choose_victim_(queue_) : queue_.popleft();
    if (choose_victim_) queue_.remove(block);
    evict(block);
    block.ref_cnt = 1;
    block.last_used_at = clock_;
    id = block.id;
  }
  return true;
}

void BlockPool::evict(KvBlock& block) {
  if (!block.is_cached) return;
  const uint64_t hash = block.hash;
  KvBlock** link = &buckets_[bucket_of(hash)];
  while (*link != &block) link = &(*link)->next_in_bucket;
  *link = std::exchange(block.next_in_bucket, nullptr);
  block.is_cached = false;
  --num_cached_;
  ++metrics_.num_evicted;
  metrics_.sum_residency += clock_ - block.cached_at;
  metrics_.sum_idle += clock_ - block.last_used_at;
  metrics_.num_evicted_unused += block.num_hits == 0;
  tell(CacheEvent::Kind::kRemoved, block.id, hash);
}

void BlockPool::touch(std::span<const int32_t> ids) {
  for (const int32_t id : ids) find_block(id, "touched");
  ++clock_;
  for (const int32_t id : ids) {
    KvBlock& block = at(id);
    if (block.ref_cnt == 0) {
      queue_.remove(block);  // from wherever it is
      ++metrics_.num_revived;
    }
    ++block.ref_cnt;
    ++block.num_hits;
    block.last_used_at = clock_;
  }
}

void BlockPool::free_blocks(std::span<const int32_t> ids) {
  // All references are dropped, or all given back if one is missing. An id may come twice.
  size_t dropped = 0;
  while (dropped < ids.size() && has_reference(ids[dropped])) --at(ids[dropped++]).ref_cnt;
  if (dropped < ids.size()) {
    for (size_t i = 0; i < dropped; ++i) ++at(ids[i]).ref_cnt;
    const int32_t id = find_block(ids[dropped], "freed").id;
    throw std::logic_error(fmt::format("BlockPool: block {} is freed, but it is free", id));
  }
  ++clock_;
  for (const int32_t id : ids) {
    KvBlock& block = at(id);
    block.last_used_at = clock_;
    if (block.ref_cnt > 0 || FreeBlockQueue::contains(block)) continue;
    if (order_ == FreeOrder::kUnhashedFirst && !block.is_cached) {
      queue_.prepend(block);
    } else {
      queue_.append(block);
    }
  }
}

std::optional<BlockPool::Match> BlockPool::find(uint64_t hash, std::optional<PrefixId> parent,
                                                std::span<const int32_t> tokens,
                                                const ExtraKeys& extra_keys) const {
  hash = narrow(hash);
  for (const KvBlock* block = buckets_[bucket_of(hash)]; block; block = block->next_in_bucket) {
    if (block->hash != hash) continue;
    const BlockContent& content = contents_[index_of(*block)];
    const auto held = tokens_of(*block);
    if (content.parent == parent.value_or(kNoPrefix) && content.extra_keys == extra_keys &&
        std::equal(held.begin(), held.end(), tokens.begin(), tokens.end())) {
      return Match{.block_id = block->id, .prefix = content.prefix};
    }
    ++num_refused_;
  }
  return std::nullopt;
}

PrefixId BlockPool::cache_full_block(int32_t id, uint64_t hash, std::optional<PrefixId> parent,
                                     std::span<const int32_t> tokens, const ExtraKeys& extra_keys) {
  KvBlock& block = find_block(id, "cached");
  if (block.ref_cnt == 0 || block.is_cached) {
    throw std::logic_error(fmt::format("BlockPool: block {} is cached, but it is {}", id,
                                       block.is_cached ? "cached already" : "free"));
  }
  if (tokens.size() != static_cast<size_t>(block_size_)) {
    throw std::invalid_argument(
        fmt::format("BlockPool: block {} is cached with {} tokens, full are {}", id, tokens.size(),
                    block_size_));
  }
  expect_events(1);
  const int64_t refused = num_refused_;
  const std::optional<Match> same = find(hash, parent, tokens, extra_keys);
  num_refused_ = refused;  // nobody asked
  hash = narrow(hash);
  contents_[index_of(block)] = {.parent = parent.value_or(kNoPrefix),
                                .prefix = same ? same->prefix : next_prefix_++,
                                .extra_keys = extra_keys};
  block.hash = hash;
  block.is_cached = true;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<std::ptrdiff_t>(id) * block_size_);
  KvBlock*& head = buckets_[bucket_of(hash)];
  block.next_in_bucket = std::exchange(head, &block);
  block.cached_at = clock_;
  block.num_hits = 0;
  ++num_cached_;
  ++metrics_.num_stored;
  tell(CacheEvent::Kind::kStored, id, hash);
  return contents_[index_of(block)].prefix;
}

bool BlockPool::reset_prefix_cache() {
  if (num_used() > 0) return false;
  expect_events(1);
  for (KvBlock& block : blocks_) {
    block.is_cached = false;
    block.next_in_bucket = nullptr;
  }
  std::fill(buckets_.begin(), buckets_.end(), nullptr);
  num_cached_ = 0;
  tell(CacheEvent::Kind::kCleared, -1, 0);
  return true;
}

void BlockPool::expect_events(size_t count) {
  const size_t all = events_.size() + count;
  if (record_ && all > events_.capacity()) events_.reserve(2 * all);
}

void BlockPool::tell(CacheEvent::Kind kind, int32_t id, uint64_t hash) {
  if (record_) events_.push_back({.kind = kind, .block_id = id, .hash = hash});
}

void BlockPool::check() const {
  size_t free = 0;
  int cached = 0;
  for (const KvBlock& block : blocks_) {
    const bool in_queue = FreeBlockQueue::contains(block);
    if (in_queue != (block.ref_cnt == 0)) {
      throw std::logic_error(fmt::format("block {} has ref count {} and is {}in the queue",
                                         block.id, block.ref_cnt, in_queue ? "" : "not "));
    }
    free += in_queue;
    cached += block.is_cached;
  }
  const std::vector<const KvBlock*> queue = queue_.all();
  if (free != queue_.size() || queue.size() != free) {
    throw std::logic_error(
        fmt::format("{} blocks are free, the queue counts {}", free, queue_.size()));
  }
  int chained = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (const KvBlock* block = buckets_[bucket]; block; block = block->next_in_bucket) {
      if (!block->is_cached || bucket_of(block->hash) != bucket) {
        throw std::logic_error(fmt::format("block {} is in the wrong bucket", block->id));
      }
      if (++chained > cached) throw std::logic_error("the hash table names a block twice");
    }
  }
  if (chained != cached || cached != num_cached_ || blocks_[kNullBlock].is_cached ||
      blocks_[kNullBlock].ref_cnt != 1) {
    throw std::logic_error(fmt::format("{} blocks are cached, the hash table names {}, counted {}",
                                       cached, chained, num_cached_));
  }
}

}  // namespace lesson07
