#include "host_tier_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lessons/05_refcount_cow/check_ref_counts.h"

namespace lesson11 {

using lesson07::KvBlock;

void DevicePool::share_prefixes(const BlockPool& host) {
  host_ = &host;
  for (int32_t id = 1; id <= host.num_blocks(); ++id) {
    const CachedBlock* const block = host.index().block(id);
    if (block == nullptr) continue;
    next_prefix_ = std::max({next_prefix_, block->prefix + 1, block->parent.value_or(-1) + 1});
  }
}

PrefixId DevicePool::cache_full_block(int32_t id, const BlockKey& key) {
  BlockKey numbered = key;
  const CachedBlock* const copy = host_->index().find(key);
  numbered.prefix = copy != nullptr ? copy->prefix : next_prefix_++;
  return BlockPool::cache_full_block(id, numbered);
}

HostTierManager::HostTierManager(DevicePool& device, BlockPool& host, Transfers& transfers,
                                 const CacheManagerOptions& options)
    : KvCacheManager(device, options),
      device_(device),
      host_(host),
      transfers_(transfers),
      last_job_(device.index().num_ids()),
      was_loaded_(device.index().num_ids()) {
  device.share_prefixes(host);
}

void HostTierManager::complete() {
  done_ = transfers_.completed();
  for (; !loads_.empty() && loads_.front().job <= done_; loads_.pop_front()) {
    Load& load = loads_.front();
    while (load.chain.num_blocks < std::ssize(load.block_ids)) {  // again from here if this fails
      const int32_t block = load.block_ids[load.chain.num_blocks];
      const BlockKey key = next_key(load.chain, load.tokens, load.hashes, block_size());
      load.chain = {load.chain.num_blocks + 1, device_.cache_full_block(block, key)};
      was_loaded_[block] = true;
    }
    device_.free_blocks(load.block_ids);
  }
  std::erase_if(loading_, [&](const auto& waits) { return waits.second.job <= done_; });
}

void HostTierManager::load(int64_t id, std::span<const int32_t> tokens, const BlockHashes& hashes,
                           const ComputedBlocks& computed) {
  if (is_loading(id)) return;
  const std::vector<int32_t> host_ids = find_in_host(tokens, hashes, computed);
  if (host_ids.empty()) return;
  for (const Load& other : loads_) {  // another request has asked for the same blocks
    if (std::ranges::find(other.host_ids, host_ids.front()) == other.host_ids.end()) continue;
    loading_[id] = {.job = other.job, .num_blocks = 0};
    return;
  }
  const auto num_blocks = static_cast<int>(host_ids.size());
  const int num_tokens = computed.num_tokens + num_blocks * block_size();
  if (num_blocks_to_start(id, computed, num_tokens) > device_.num_free()) {
    throw std::logic_error(fmt::format("HostTierManager: request {} loads {} blocks, {} are free",
                                       id, num_blocks, device_.num_free()));
  }
  Load load{.chain = computed.chain,
            .block_ids = computed.block_ids,
            .host_ids = host_ids,
            .tokens = {tokens.begin(), tokens.begin() + num_tokens},
            .hashes = hashes};
  load.block_ids.resize(load.block_ids.size() + host_ids.size());
  device_.touch(computed.block_ids);  // pins them before new blocks are taken
  device_.get_new_blocks(std::span(load.block_ids).last(host_ids.size()));
  start(std::move(load));
  loading_[id] = {.job = loads_.back().job, .num_blocks = num_blocks};
}

void HostTierManager::start(Load load) {
  const size_t num_loads = loads_.size();
  try {
    std::vector<BlockMove> moves;
    const auto fresh = std::span(load.block_ids).last(load.host_ids.size());
    for (size_t i = 0; i < fresh.size(); ++i) moves.push_back({fresh[i], load.host_ids[i]});
    loads_.push_back(std::move(load));
    loads_.back().job = transfers_.start(Direction::kLoad, moves);
  } catch (...) {  // as if the load had never been requested
    const bool is_listed = loads_.size() > num_loads;
    device_.free_blocks(is_listed ? loads_.back().block_ids : load.block_ids);
    if (is_listed) loads_.pop_back();
    throw;
  }
  const std::vector<int32_t>& host_ids = loads_.back().host_ids;
  metrics_.num_loaded += std::ssize(host_ids);
  for (auto id = host_ids.rbegin(); id != host_ids.rend(); ++id) {
    mark_most_recent(*id);  // the tail goes first
  }
}

/// Splits victims: those whose content the host lacks, each content once, and the host's copies of
/// the others. These copies become the last ones to be overwritten.
HostTierManager::Victims HostTierManager::split(std::span<const KvBlock* const> blocks) {
  Victims victims;
  for (const KvBlock* const block : blocks) {
    const CachedBlock* const content = device_.index().block(block->id);
    const CachedBlock* const copy = host_.index().find(device_.index().key_of(*content));
    const auto same = std::ranges::find(victims.missing, content->prefix, &CachedBlock::prefix);
    if (copy != nullptr) {
      victims.copies.push_back(copy->id);
      mark_most_recent(victims.copies.back());
    } else if (same == victims.missing.end()) {
      victims.missing.push_back(content);
    }
  }
  return victims;
}

/// Makes this host block the last one to be overwritten.
void HostTierManager::mark_most_recent(int32_t host_id) {
  host_.touch({&host_id, 1});
  host_.free_blocks({&host_id, 1});
}

/// Plans, starts the copies, and only then changes what the host's pool holds: if the copies cannot
/// be started, it still holds what it held.
void HostTierManager::offload(int num_ahead, int min_hits) {
  std::vector<const KvBlock*> blocks = device_.queue().first(num_ahead);
  std::erase_if(blocks, [&](const KvBlock* block) {
    return !block->is_cached || block->num_hits < min_hits;
  });
  const auto [missing, copies] = split(blocks);
  std::vector<BlockMove> moves;
  for (const KvBlock* const target : host_.queue().first(missing.size())) {
    if (std::ranges::find(copies, target->id) != copies.end()) break;  // only copies are left
    moves.push_back({missing[moves.size()]->id, target->id});
  }
  if (moves.empty()) return;
  std::vector<int32_t> ids(moves.size());
  const Job job = transfers_.start(Direction::kOffload, moves);
  // Nothing allocates from here on, so nothing can fail.
  metrics_.num_offloaded += std::ssize(moves);
  host_.get_new_blocks(ids);  // the targets of the moves
  for (size_t i = 0; i < ids.size(); ++i) {
    host_.cache_full_block(ids[i], device_.index().key_of(*missing[i]));
    last_job_[missing[i]->id] = job;
  }
  // Victims come tail first from the queue, and free_blocks() takes the head first: tails are
  // overwritten before heads.
  std::reverse(ids.begin(), ids.end());
  host_.free_blocks(ids);
}

std::optional<std::span<const int32_t>> HostTierManager::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed) {
  if (is_loading(id)) return std::nullopt;
  const auto blocks = KvCacheManager::allocate_slots(id, num_new_tokens, computed);
  if (!blocks) return std::nullopt;
  for (const int32_t block : computed.block_ids) {
    ++(was_loaded_[block] ? metrics_.num_hits_in_host : metrics_.num_hits_on_device);
    was_loaded_[block] = false;
  }
  for (const int32_t block : *blocks) {
    was_loaded_[block] = false;
    if (last_job_[block] > done_) write_job_ = std::max(write_job_, last_job_[block]);
  }
  return blocks;
}

bool HostTierManager::reset_prefix_cache() {
  finish_loads();
  return KvCacheManager::reset_prefix_cache() && host_.reset_prefix_cache();
}

std::vector<int32_t> HostTierManager::find_in_host(std::span<const int32_t> tokens,
                                                   const BlockHashes& hashes,
                                                   const ComputedBlocks& computed) const {
  std::vector<int32_t> found;
  if (computed.num_queried == 0) return found;  // without caching nothing is found
  lesson06::PrefixChain chain = computed.chain;
  while ((chain.num_blocks + 1) * block_size() < std::ssize(tokens)) {
    const CachedBlock* const match =
        host_.index().find(next_key(chain, tokens, hashes, block_size()));
    if (match == nullptr) break;
    found.push_back(match->id);
    chain = {chain.num_blocks + 1, match->prefix};
  }
  return found;
}

int64_t HostTierManager::num_blocks_to_start(int64_t id, const ComputedBlocks& computed,
                                             int num_tokens) const {
  const auto waiting = loading_.find(id);
  const int num_loading = waiting == loading_.end() ? 0 : waiting->second.num_blocks;
  return num_blocks_to_allocate(computed, num_tokens - computed.num_tokens) - num_loading;
}

void HostTierManager::wait_for_load() {
  if (!loads_.empty()) transfers_.wait(loads_.front().job);
}

void HostTierManager::finish_loads() {
  if (!loads_.empty()) transfers_.wait(loads_.back().job);
  complete();
}

void HostTierManager::check() const {
  device_.check();
  host_.check();
  lesson06::NumTables num_holders;
  count_tables(num_holders);
  for (const Load& load : loads_) {
    for (const int32_t block : load.block_ids) ++num_holders[block];
    if (std::ssize(load.tokens) < std::ssize(load.block_ids) * block_size()) {
      throw std::logic_error(fmt::format("a load of {} blocks has {} tokens", load.block_ids.size(),
                                         load.tokens.size()));
    }
  }
  lesson05::check_ref_counts(device_, num_holders);
}

}  // namespace lesson11
