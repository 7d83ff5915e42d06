#include "host_tier_manager.h"

#include <algorithm>
#include <limits>

namespace lesson11 {

using lesson07::KvBlock;

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

}  // namespace

DevicePool::DevicePool(BlockPool& pool, const BlockPool& host) : pool_(pool), host_(host) {
  for (int32_t id = 1; id <= host.num_blocks(); ++id) {
    const CachedBlock* const block = host.index().block(id);
    if (block == nullptr) continue;
    next_prefix_ = std::max({next_prefix_, block->prefix + 1, block->parent.value_or(-1) + 1});
  }
}

PrefixId DevicePool::cache_full_block(int32_t id, const BlockKey& key) {
  BlockKey numbered = key;
  const CachedBlock* const copy = host_.index().find(key);
  numbered.prefix = copy != nullptr ? copy->prefix : next_prefix_++;
  return pool_.cache_full_block(id, numbered);
}

HostTierManager::HostTierManager(BlockPool& device, BlockPool& host, Transfers& transfers,
                                 const CacheManagerOptions& options)
    : device_(device),
      host_(host),
      transfers_(transfers),
      numbered_(device, host),
      manager_(numbered_, options),
      last_job_(at(device.index().num_ids())),
      was_loaded_(at(device.index().num_ids())) {}

void HostTierManager::finish_loads() {
  if (!loads_.empty()) transfers_.wait(loads_.back().job);
  complete();
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

bool HostTierManager::load(int64_t id, std::span<const int32_t> tokens, BlockHashes hashes,
                           int64_t& room) {
  ComputedBlocks computed = manager_.get_computed_blocks(tokens, hashes);
  const int rest = static_cast<int>(tokens.size()) - computed.num_tokens;
  room -= manager_.num_blocks_to_allocate(computed, rest);
  if (const auto waiting = loading_.find(id); waiting != loading_.end()) {
    room += waiting->second.num_blocks;  // they are not free any more
    return room >= 0;
  }
  Load load;
  load.host_ids = find_in_host(tokens, hashes, computed);
  if (room < 0 || load.host_ids.empty()) return room >= 0;
  const auto num_blocks = static_cast<int>(load.host_ids.size());
  for (const Load& other : loads_) {  // another request has asked for the same blocks
    if (std::ranges::find(other.host_ids, load.host_ids.front()) == other.host_ids.end()) continue;
    loading_[id] = {.job = other.job, .num_blocks = 0};
    return true;
  }
  computed.num_queried = 0;  // not a request: it does not count in the hit rate
  load.owner = std::numeric_limits<int64_t>::min() + metrics_.num_loaded;
  const int num_tokens = num_blocks * block_size();
  load.tokens.assign(tokens.begin(), tokens.begin() + computed.num_tokens + num_tokens);
  load.hashes = std::move(hashes);
  start_load(std::move(load), manager_.allocate_slots(load.owner, num_tokens, computed).value());
  loading_[id] = {.job = loads_.back().job, .num_blocks = num_blocks};
  return true;
}

void HostTierManager::start_load(Load load, std::span<const int32_t> blocks) {
  const int64_t owner = load.owner;
  try {
    std::vector<BlockMove> moves;
    for (size_t i = 0; i < blocks.size(); ++i) moves.push_back({blocks[i], load.host_ids[i]});
    loads_.push_back(std::move(load));
    loads_.back().job = transfers_.start(Way::kLoad, moves);
  } catch (...) {  // as if it had not been asked for
    if (!loads_.empty() && loads_.back().owner == owner) loads_.pop_back();
    manager_.free(owner);
    throw;
  }
  const Load& started = loads_.back();
  metrics_.num_loaded += std::ssize(started.host_ids);
  for (size_t i = blocks.size(); i-- > 0;) use(started.host_ids[i]);  // the tail goes first
}

void HostTierManager::complete() {
  done_ = transfers_.completed();
  for (; !loads_.empty() && loads_.front().job <= done_; loads_.pop_front()) {
    Load& load = loads_.front();
    const auto blocks = manager_.table(load.owner).block_ids();
    for (const int32_t block : blocks.last(load.host_ids.size())) was_loaded_[at(block)] = true;
    manager_.cache_blocks(load.owner, load.tokens, load.hashes,
                          static_cast<int>(load.tokens.size()));
    manager_.free(load.owner);
  }
  std::erase_if(loading_, [&](const auto& waits) { return waits.second.job <= done_; });
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
      use(victims.copies.back());
    } else if (same == victims.missing.end()) {
      victims.missing.push_back(content);
    }
  }
  return victims;
}

/// Makes the block of the host the last one to be overwritten.
void HostTierManager::use(int32_t host_id) {
  host_.touch({&host_id, 1});
  host_.free_blocks({&host_id, 1});
}

/// Plans, starts the copies, and only then changes what the host's pool holds: if the copies cannot
/// be started, it still holds what it held.
void HostTierManager::offload(int num_ahead, int min_hits) {
  std::vector<const KvBlock*> blocks = device_.queue().first(at(num_ahead));
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
  const Job job = transfers_.start(Way::kOffload, moves);
  // From here on nothing allocates, and nothing can fail.
  metrics_.num_offloaded += std::ssize(moves);
  host_.get_new_blocks(ids);  // the targets of the moves
  for (size_t i = 0; i < ids.size(); ++i) {
    host_.cache_full_block(ids[i], device_.index().key_of(*missing[i]));
    last_job_[at(missing[i]->id)] = job;
  }
  // Victims stand tail first in the queue, and free_blocks() wants the head first: tails are
  // overwritten before heads.
  std::reverse(ids.begin(), ids.end());
  host_.free_blocks(ids);
}

std::optional<std::span<const int32_t>> HostTierManager::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed) {
  if (is_loading(id)) return std::nullopt;
  const auto blocks = manager_.allocate_slots(id, num_new_tokens, computed);
  if (!blocks) return std::nullopt;
  for (const int32_t block : computed.block_ids) {
    ++(was_loaded_[at(block)] ? metrics_.num_hits_in_host : metrics_.num_hits_on_device);
    was_loaded_[at(block)] = false;
  }
  for (const int32_t block : *blocks) {
    was_loaded_[at(block)] = false;
    if (last_job_[at(block)] > done_) write_job_ = std::max(write_job_, last_job_[at(block)]);
  }
  return blocks;
}

void HostTierManager::wait_for_load() {
  if (!loads_.empty()) transfers_.wait(loads_.front().job);
}

bool HostTierManager::reset_prefix_cache() {
  finish_loads();
  return manager_.reset_prefix_cache() && host_.reset_prefix_cache();
}

void HostTierManager::check() const {
  manager_.check();
  host_.check();
  for (const Load& load : loads_) manager_.table(load.owner);  // throws if it holds no blocks
}

}  // namespace lesson11
