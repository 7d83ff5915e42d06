#include "kv_cache_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lesson06 {
namespace {

template <class Requests>
auto& find_in(Requests& requests, int64_t id) {
  const auto found = requests.find(id);
  if (found == requests.end()) {
    throw std::out_of_range(fmt::format("KvCacheManager: request {} holds no blocks", id));
  }
  return found->second;
}

}  // namespace

CachingMetrics::CachingMetrics(int max_requests) {
  if (max_requests < 1) {
    throw std::invalid_argument(
        fmt::format("CachingMetrics: {} recent requests, wanted at least 1", max_requests));
  }
  window_.resize(static_cast<size_t>(max_requests));
}

void CachingMetrics::observe(int queries, int hits) {
  PrefixCacheStats& oldest = window_[next_];
  recent_.requests += 1 - oldest.requests;
  recent_.queries += queries - oldest.queries;
  recent_.hits += hits - oldest.hits;
  oldest = {.requests = 1, .queries = queries, .hits = hits};
  next_ = (next_ + 1) % window_.size();
}

KvCacheManager::KvCacheManager(CachePool& pool, const CacheManagerOptions& options)
    : pool_(&pool),
      new_blocks_(static_cast<size_t>(pool.num_blocks())),
      block_size_(pool.block_size()),
      options_(options),
      metrics_(options.max_recent_requests) {}

BlockKey KvCacheManager::next_key(const PrefixChain& chain, std::span<const int32_t> tokens,
                                  const BlockHashes& hashes) const {
  const auto index = static_cast<size_t>(chain.num_blocks),
             size = static_cast<size_t>(block_size());
  return {.hash = hashes.all().at(index),
          .parent = chain.prefix,
          .tokens = tokens.subspan(index * size, size),
          .extra_keys = hashes.extra_keys()};
}

ComputedBlocks KvCacheManager::get_computed_blocks(std::span<const int32_t> tokens,
                                                   BlockHashes& hashes, bool skip_reading) const {
  ComputedBlocks computed;
  if (!options_.caching || skip_reading) return computed;
  hashes.extend(tokens, block_size(), options_.hasher);  // again: nothing is left to hash
  computed.num_queried = static_cast<int>(tokens.size());
  const auto size = static_cast<size_t>(block_size());
  for (size_t end = size; end < tokens.size(); end += size) {  // < : the last token is left
    const CachedBlock* const match =
        pool_->index().find(next_key(computed.chain, tokens, hashes), &computed.num_refused);
    if (match == nullptr) break;
    computed.block_ids.push_back(match->id);
    computed.chain = {computed.chain.num_blocks + 1, match->prefix};
  }
  computed.num_tokens = computed.chain.num_blocks * block_size();
  return computed;
}

std::optional<std::span<const int32_t>> KvCacheManager::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed, int must_fit) {
  if (const auto held = requests_.find(id); held != requests_.end()) {
    if (!computed.block_ids.empty()) {
      throw std::invalid_argument(fmt::format(
          "KvCacheManager: request {} holds blocks and cannot begin with cached ones", id));
    }
    BlockTable& table = held->second.table;
    const int needed = table.blocks_to_extend(num_new_tokens);
    if (needed > 0) {
      if (needed > pool_->num_free()) return std::nullopt;
      table.reserve(static_cast<size_t>(table.num_blocks() + needed));
    }
    return grow(table, num_new_tokens, needed);
  }
  if (num_blocks_to_allocate(computed, std::max(num_new_tokens, must_fit)) > pool_->num_free()) {
    return std::nullopt;
  }
  Request request{.table = BlockTable(block_size()), .chain = computed.chain};
  request.table.extend(computed.num_tokens, computed.block_ids);
  const int needed = request.table.blocks_to_extend(num_new_tokens);
  BlockTable& table = add(id, std::move(request), computed, needed);
  // From here on nothing can fail: no block is taken that no table names.
  pool_->touch(computed.block_ids);  // pinned, before anything else is taken
  return grow(table, num_new_tokens, needed);
}

BlockTable& KvCacheManager::add(int64_t id, Request request, const ComputedBlocks& computed,
                                int num_new_blocks) {
  request.table.reserve(static_cast<size_t>(
      std::max(request.table.num_blocks() + num_new_blocks, options_.max_blocks_per_request)));
  BlockTable& table = requests_.emplace(id, std::move(request)).first->second.table;
  if (computed.num_queried > 0) metrics_.observe(computed.num_queried, computed.num_tokens);
  return table;
}

/// Cannot fail: so many blocks are free, and the table has room for them.
std::span<const int32_t> KvCacheManager::grow(BlockTable& table, int num_tokens, int num_blocks) {
  const auto fresh = std::span(new_blocks_).first(static_cast<size_t>(num_blocks));
  if (num_blocks > 0) pool_->get_new_blocks(fresh);
  table.extend(num_tokens, fresh);
  return fresh;
}

void KvCacheManager::cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                                  int num_computed) {
  auto& [table, chain] = find_in(requests_, id);
  if (num_computed > table.num_tokens() || static_cast<size_t>(num_computed) > tokens.size()) {
    throw std::invalid_argument(
        fmt::format("KvCacheManager: request {} has computed {} of {} tokens with {} slots", id,
                    num_computed, tokens.size(), table.num_tokens()));
  }
  if (!options_.caching) return;
  hashes.extend(tokens.first(static_cast<size_t>(num_computed)), block_size(), options_.hasher);
  while (chain.num_blocks < num_computed / block_size()) {
    const int32_t block = table.block_ids()[static_cast<size_t>(chain.num_blocks)];
    const BlockKey key = next_key(chain, tokens, hashes);
    chain = {chain.num_blocks + 1, publish(block, key)};
  }
}

PrefixId KvCacheManager::publish(int32_t block, const BlockKey& key) {
  return pool_->cache_full_block(block, key);
}

void KvCacheManager::free(int64_t id) {
  pool_->free_blocks(table(id).block_ids());
  requests_.erase(id);
}

bool KvCacheManager::reset_prefix_cache() {
  if (!pool_->reset_prefix_cache()) return false;
  metrics_ = CachingMetrics(options_.max_recent_requests);
  return true;
}

KvCacheManager::Request& KvCacheManager::held(int64_t id) { return find_in(requests_, id); }

const BlockTable& KvCacheManager::table(int64_t id) const { return find_in(requests_, id).table; }

int64_t KvCacheManager::max_blocks(int64_t num_tokens) const {
  return (num_tokens + block_size() - 1) / block_size();
}

int64_t KvCacheManager::num_blocks_to_allocate(const ComputedBlocks& computed,
                                               int num_new_tokens) const {
  const int64_t num_tokens = int64_t{computed.num_tokens} + num_new_tokens;
  // A hit on a free block takes one from the free ones, too.
  const auto revived = std::ranges::count_if(
      computed.block_ids, [&](int32_t block) { return pool_->ref_cnt(block) == 0; });
  return max_blocks(num_tokens) - std::ssize(computed.block_ids) + revived;
}

int64_t KvCacheManager::num_slots_used() const {
  // Only full blocks are shared: what is empty is in last blocks, and each has one holder.
  int64_t empty = 0;
  for (const auto& [id, request] : requests_) {
    if (request.table.num_blocks() > 0) empty += block_size() - request.table.last_block_fill();
  }
  return int64_t{pool_->num_used()} * block_size() - empty;
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

}  // namespace lesson06
