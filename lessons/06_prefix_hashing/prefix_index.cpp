#include "prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace lesson06 {

bool same_content(const BlockKey& a, const BlockKey& b) {
  return a.parent == b.parent && std::ranges::equal(a.extra_keys, b.extra_keys) &&
         std::ranges::equal(a.tokens, b.tokens);
}

PrefixIndex::PrefixIndex(int num_ids, int block_size, Check check)
    : block_size_(block_size), check_(check) {
  if (num_ids < 1 || block_size < 1) {
    throw std::invalid_argument(fmt::format(
        "PrefixIndex: {} blocks of {} tokens, wanted at least 1 of 1", num_ids, block_size));
  }
  blocks_.resize(num_ids);
  for (int32_t id = 0; id < num_ids; ++id) blocks_[id].id = id;
  tokens_.resize(int64_t{num_ids} * block_size);
  buckets_.assign(std::bit_ceil<size_t>(2 * int64_t{num_ids}), CachedBlock::kEnd);
}

const CachedBlock* PrefixIndex::find(const BlockKey& key, int64_t* num_refused) const {
  int32_t id = buckets_[bucket_of(key.hash)];
  for (; id != CachedBlock::kEnd; id = blocks_[id].next) {
    const CachedBlock& candidate = blocks_[id];
    if (candidate.hash != key.hash) continue;
    if (check_ == Check::kHashOnly || same_content(key_of(candidate), key)) return &candidate;
    if (num_refused != nullptr) ++*num_refused;
  }
  return nullptr;
}

PrefixId PrefixIndex::insert(int32_t block_id, const BlockKey& key) {
  if (block(block_id) != nullptr) {
    throw std::logic_error(fmt::format("PrefixIndex: block {} is cached already", block_id));
  }
  if (std::ssize(key.tokens) != block_size_) {
    throw std::invalid_argument(
        fmt::format("PrefixIndex: block {} is cached with {} tokens, full are {}", block_id,
                    key.tokens.size(), block_size_));
  }
  const CachedBlock* const same = find(key);
  CachedBlock& block = blocks_[block_id];
  block.extra_keys.assign(key.extra_keys.begin(), key.extra_keys.end());  // may throw: comes first
  block.hash = key.hash;
  block.parent = key.parent;
  block.prefix = same ? same->prefix : key.prefix ? *key.prefix : next_prefix_++;
  int32_t* end = &buckets_[bucket_of(key.hash)];
  while (*end != CachedBlock::kEnd) end = &blocks_[*end].next;
  *end = block_id;  // at the chain's end: of equal blocks the oldest is found
  block.next = CachedBlock::kEnd;
  std::ranges::copy(key.tokens, tokens_.begin() + std::ptrdiff_t{block_id} * block_size_);
  ++size_;
  return block.prefix;
}

std::optional<uint64_t> PrefixIndex::erase(int32_t block_id) {
  if (block(block_id) == nullptr) return std::nullopt;
  CachedBlock& block = blocks_[block_id];
  int32_t* link = &buckets_[bucket_of(block.hash)];
  while (*link != block_id) link = &blocks_[*link].next;
  *link = std::exchange(block.next, CachedBlock::kNotCached);
  --size_;
  return block.hash;
}

const CachedBlock* PrefixIndex::block(int32_t id) const {
  const CachedBlock& block = blocks_.at(id);
  return block.next == CachedBlock::kNotCached ? nullptr : &block;
}

BlockKey PrefixIndex::key_of(const CachedBlock& block) const {
  return {.hash = block.hash,
          .parent = block.parent,
          .tokens = tokens(block.id),
          .extra_keys = block.extra_keys,
          .prefix = block.prefix};
}

std::span<const int32_t> PrefixIndex::tokens(int32_t id) const {
  return std::span(tokens_).subspan(int64_t{id} * block_size_, block_size_);
}

void PrefixIndex::check() const {
  int chained = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (int32_t id = buckets_[bucket]; id != CachedBlock::kEnd; id = block(id)->next) {
      const CachedBlock& found = blocks_.at(id);
      if (block(id) == nullptr || bucket_of(found.hash) != bucket || ++chained > num_ids()) {
        throw std::logic_error(
            fmt::format("block {} is in chain {} of {}; its hash is {}, its next {}", id, bucket,
                        buckets_.size(), found.hash, found.next));
      }
    }
  }
  const auto cached =
      num_ids() - std::ranges::count(blocks_, CachedBlock::kNotCached, &CachedBlock::next);
  if (chained != size_ || cached != size_) {
    throw std::logic_error(fmt::format("{} blocks are cached, the index names {} and counts {}",
                                       cached, chained, size_));
  }
}

}  // namespace lesson06
