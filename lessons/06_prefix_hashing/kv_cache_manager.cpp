#include "kv_cache_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lessons/05_refcount_cow/check_ref_counts.h"

namespace lesson06 {

int64_t num_revived(const CachePool& pool, std::span<const int32_t> hits) {
  return std::ranges::count_if(hits, [&](int32_t block) { return pool.ref_cnt(block) == 0; });
}

KvCacheManager::KvCacheManager(CachePool& pool, const CacheManagerOptions& options)
    : pool_(&pool), options_(options) {}

BlockKey next_key(const PrefixChain& chain, std::span<const int32_t> tokens,
                  const BlockHashes& hashes, int block_size) {
  const size_t index = chain.num_blocks, size = block_size;
  return {.hash = hashes.all().at(index),
          .parent = chain.prefix,
          .tokens = tokens.subspan(index * size, size),
          .extra_keys = hashes.extra_keys()};
}

ComputedBlocks KvCacheManager::get_computed_blocks(std::span<const int32_t> tokens,
                                                   BlockHashes& hashes) const {
  ComputedBlocks computed;
  if (!options_.caching) return computed;
  hashes.extend(tokens, block_size(), options_.hasher);  // a repeat has nothing to hash
  computed.num_queried = static_cast<int>(tokens.size());
  const size_t size = block_size();
  for (size_t end = size; end < tokens.size(); end += size) {  // <, as the last token has to run
    const BlockKey key = next_key(computed.chain, tokens, hashes, block_size());
    const CachedBlock* const match = pool_->index().find(key, &computed.num_refused);
    if (match == nullptr) break;
    computed.block_ids.push_back(match->id);
    computed.chain = {computed.chain.num_blocks + 1, match->prefix};
  }
  computed.num_tokens = computed.chain.num_blocks * block_size();
  return computed;
}

std::optional<std::span<const int32_t>> KvCacheManager::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed) {
  if (const auto held = requests_.find(id); held != requests_.end()) {
    if (!computed.block_ids.empty()) {
      throw std::invalid_argument(fmt::format(
          "KvCacheManager: request {} holds blocks and cannot begin with cached ones", id));
    }
    BlockTable& table = held->second.table;
    if (table.blocks_to_extend(num_new_tokens) > pool_->num_free()) return std::nullopt;
    const std::span<int32_t> fresh = table.extend(num_new_tokens);
    pool_->get_new_blocks(fresh);
    return fresh;
  }
  if (num_blocks_to_allocate(computed, num_new_tokens) > pool_->num_free()) return std::nullopt;
  BlockTable table(block_size());
  const std::span<int32_t> found = table.extend(computed.num_tokens);
  if (found.size() != computed.block_ids.size()) {
    throw std::invalid_argument(
        fmt::format("KvCacheManager: request {} begins with {} tokens in {} blocks, wanted {}", id,
                    computed.num_tokens, computed.block_ids.size(), found.size()));
  }
  std::ranges::copy(computed.block_ids, found.begin());
  const std::span<int32_t> fresh = table.extend(num_new_tokens);
  requests_.emplace(id, Request{std::move(table), computed.chain});  // its entries stay in place
  // Nothing can fail from here on, so no block is taken that isn't in a table.
  pool_->touch(computed.block_ids);  // pins them before new blocks are taken
  pool_->get_new_blocks(fresh);
  if (computed.num_queried > 0) {
    stats_ = {stats_.requests + 1, stats_.queries + computed.num_queried,
              stats_.hits + computed.num_tokens};
  }
  return fresh;
}

void KvCacheManager::cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                                  int num_computed) {
  const BlockTable& table = this->table(id);
  if (num_computed > table.num_tokens() || static_cast<size_t>(num_computed) > tokens.size()) {
    throw std::invalid_argument(
        fmt::format("KvCacheManager: request {} has computed {} of {} tokens with {} slots", id,
                    num_computed, tokens.size(), table.num_tokens()));
  }
  if (!options_.caching) return;
  hashes.extend(tokens.first(num_computed), block_size(), options_.hasher);
  PrefixChain& chain = requests_.at(id).chain;
  while (chain.num_blocks < num_computed / block_size()) {
    const int32_t block = table.block_ids()[chain.num_blocks];
    const BlockKey key = next_key(chain, tokens, hashes, block_size());
    chain = {chain.num_blocks + 1, pool_->cache_full_block(block, key)};
  }
}

void KvCacheManager::free(int64_t id) {
  pool_->free_blocks(table(id).block_ids());
  requests_.erase(id);
}

bool KvCacheManager::reset_prefix_cache() {
  if (!pool_->reset_prefix_cache()) return false;
  stats_ = {};
  return true;
}

const BlockTable& KvCacheManager::table(int64_t id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    throw std::out_of_range(fmt::format("KvCacheManager: request {} holds no blocks", id));
  }
  return found->second.table;
}

int64_t KvCacheManager::max_blocks(int64_t num_tokens) const {
  return (num_tokens + block_size() - 1) / block_size();
}

int64_t KvCacheManager::num_blocks_to_allocate(const ComputedBlocks& computed,
                                               int num_new_tokens) const {
  const int64_t num_tokens = int64_t{computed.num_tokens} + num_new_tokens;
  return max_blocks(num_tokens) - std::ssize(computed.block_ids) +
         num_revived(*pool_, computed.block_ids);
}

int64_t KvCacheManager::num_slots_used() const {
  // Only full blocks are shared, so empty slots are in last blocks, and each has one holder.
  int64_t empty = 0;
  for (const auto& [id, request] : requests_) {
    if (request.table.num_blocks() > 0) empty += block_size() - request.table.last_block_fill();
  }
  return int64_t{pool_->num_used()} * block_size() - empty;
}

void KvCacheManager::count_tables(NumTables& num_tables) const {
  for (const auto& [id, request] : requests_) {
    for (const int32_t block : request.table.block_ids()) ++num_tables[block];
  }
}

void KvCacheManager::check() const {
  pool_->check();
  NumTables num_tables;
  count_tables(num_tables);
  lesson05::check_ref_counts(*pool_, num_tables);
}

}  // namespace lesson06
