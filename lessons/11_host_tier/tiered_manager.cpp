#include "tiered_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"

namespace lesson11 {

using lesson06::CachedBlock;
using lesson07::KvBlock;

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// What a block of a pool holds, as another pool is told it.
BlockKey key_of(const BlockPool& pool, const CachedBlock& block) {
  return {.hash = block.hash,
          .parent = block.parent,
          .tokens = pool.index().tokens(block.id),
          .extra_keys = block.extra_keys,
          .prefix = block.prefix};
}

}  // namespace

TieredManager::TieredManager(BlockPool& pool, std::vector<Tier> tiers,
                             const CacheManagerOptions& options, const TierOptions& tier_options,
                             PrefixId first_prefix)
    : KvCacheManager(pool, options), tier_options_(tier_options), next_prefix_(first_prefix) {
  if (tiers.empty()) throw std::invalid_argument("TieredManager: there is no tier");
  BlockPool* above = &pool;
  for (Tier& tier : tiers) {
    if (tier.pool->block_size() != block_size()) {
      throw std::invalid_argument(
          fmt::format("TieredManager: blocks of {} tokens above blocks of {}", block_size(),
                      tier.pool->block_size()));
    }
    Link link;
    link.storage = std::move(tier.storage);
    link.pool = std::move(tier.pool);
    link.transfers = std::move(tier.transfers);
    link.busy.resize(at(above->index().num_ids()));
    link.above = std::exchange(above, link.pool.get());
    links_.push_back(std::move(link));
  }
}

TieredManager::~TieredManager() {
  for (Link& link : links_) {
    if (!link.moves.empty()) link.transfers->wait(link.moves.back().ticket);
  }
}

std::optional<TierBlock> TieredManager::find_below(const BlockKey& key,
                                                   std::optional<PrefixId>* prefix) const {
  for (int tier = 0; tier < num_tiers(); ++tier) {
    const CachedBlock* const match = tier_pool(tier).index().find(key);
    if (match == nullptr) continue;
    *prefix = match->prefix;
    return TierBlock{
        .tier = tier, .id = match->id, .on_its_way = tier_pool(tier).ref_cnt(match->id) > 0};
  }
  return std::nullopt;
}

FoundBlocks TieredManager::look_up(std::span<const int32_t> tokens, BlockHashes& hashes,
                                   bool skip_reading) const {
  FoundBlocks found{.computed = get_computed_blocks(tokens, hashes, skip_reading)};
  if (found.computed.num_queried == 0) return found;  // nothing may be found
  lesson06::PrefixChain chain = found.computed.chain;
  while ((chain.num_blocks + 1) * block_size() < std::ssize(tokens)) {  // < : the last token runs
    std::optional<PrefixId> prefix;
    const auto block = find_below(next_key(chain, tokens, hashes), &prefix);
    if (!block) break;
    found.below.push_back(*block);
    chain = {chain.num_blocks + 1, prefix};
  }
  return found;
}

/// A prefix that is known further down keeps its number: what comes after it is still found.
PrefixId TieredManager::publish(int32_t block, const BlockKey& key) {
  BlockKey numbered = key;
  if (!find_below(key, &numbered.prefix)) numbered.prefix = next_prefix_++;
  return KvCacheManager::publish(block, numbered);
}

/// The lower blocks are in use until the batch has landed.
Ticket TieredManager::start(Link& link, Way way, std::vector<BlockMove> blocks) {
  link.moves.push_back({.way = way, .ticket = 0, .blocks = std::move(blocks)});
  Move& move = link.moves.back();
  try {
    move.ticket = link.transfers->start(way, move.blocks);
  } catch (...) {
    link.moves.pop_back();
    throw;
  }
  for (const BlockMove& block : move.blocks) {
    link.busy[at(block.upper)] = move.ticket;
    if (way == Way::kUp) link.pool->touch({&block.lower, 1});
  }
  return move.ticket;
}

std::optional<Ticket> TieredManager::load(int64_t id, const FoundBlocks& found, int must_fit) {
  const auto in_tier_0 = [](const TierBlock& block) { return block.tier == 0; };
  if (found.below.empty() || !std::ranges::all_of(found.below, in_tier_0)) {
    throw std::invalid_argument(
        fmt::format("TieredManager: request {} loads {} blocks, wanted at least 1, all of tier 0",
                    id, found.below.size()));
  }
  const int num_tokens = static_cast<int>(found.below.size()) * block_size();
  const auto own =
      KvCacheManager::allocate_slots(id, num_tokens, found.computed, num_tokens + must_fit);
  if (!own) return std::nullopt;
  bool started = false;
  const kv::AtEnd undo{[&] {
    if (!started) free(id);
  }};
  std::vector<BlockMove> blocks;
  for (size_t i = 0; i < own->size(); ++i) blocks.push_back({(*own)[i], found.below[i].id});
  const Ticket ticket = start(links_[0], Way::kUp, std::move(blocks));
  started = true;
  return ticket;
}

bool TieredManager::loaded(Ticket ticket) const { return ticket <= links_[0].done; }

int TieredManager::fetch(const FoundBlocks& found) {
  int num_fetched = 0;
  for (size_t tier = 1; tier < links_.size(); ++tier) {
    std::vector<int32_t> here, above;  // of what was found
    for (const TierBlock& block : found.below) {
      if (block.tier == static_cast<int>(tier)) here.push_back(block.id);
      if (block.tier == static_cast<int>(tier) - 1) above.push_back(block.id);
    }
    BlockPool& pool = *links_[tier - 1].pool;
    std::vector<BlockMove> moves;
    moves.reserve(here.size());
    bool started = false;
    const kv::AtEnd undo{[&] {
      for (const BlockMove& move : moves) {
        if (!started) pool.free_blocks({&move.upper, 1});
      }
    }};
    pool.touch(above);  // what is there already is not overwritten
    for (const int32_t id : here) {
      const auto room = take(tier - 1);
      if (!room) break;
      moves.push_back({.upper = *room, .lower = id});
    }
    pool.free_blocks(above);
    if (moves.empty()) continue;
    start(links_[tier], Way::kUp, moves);
    started = true;
    num_fetched += static_cast<int>(moves.size());
  }
  return num_fetched;
}

/// A block of a tier, to be overwritten. No value: there is none, or the next one is still being
/// copied further down.
std::optional<int32_t> TieredManager::take(size_t tier) {
  BlockPool& pool = *links_[tier].pool;
  const auto next = pool.queue().first(1);
  if (next.empty()) return std::nullopt;
  if (tier + 1 < links_.size() && links_[tier + 1].is_busy(next[0]->id)) return std::nullopt;
  int32_t id = 0;
  pool.get_new_blocks({&id, 1});
  return id;
}

/// Of the first n blocks in the queue above the tier: those that are worth a copy.
std::vector<const KvBlock*> TieredManager::worth_sinking(size_t tier, size_t n) const {
  std::vector<const KvBlock*> blocks = links_[tier].above->queue().first(n);
  const int min_hits = tier == 0 ? tier_options_.min_hits_to_sink : 0;
  std::erase_if(blocks, [&](const KvBlock* block) {
    return !block->is_cached || block->num_hits < min_hits;
  });
  return blocks;
}

/// Those that have no copy in the tier. The copies of the others stay, and become the last ones to
/// be overwritten: in a small tier two blocks would take each other's place for ever.
void TieredManager::sink_into(size_t tier, std::span<const KvBlock* const> blocks) {
  Link& link = links_[tier];
  std::vector<int32_t> copies;
  std::vector<const CachedBlock*> missing;
  for (const KvBlock* const block : blocks) {
    const CachedBlock* const content = link.above->index().block(block->id);
    const CachedBlock* const copy = link.pool->index().find(key_of(*link.above, *content));
    if (copy != nullptr) copies.push_back(copy->id);
    if (copy == nullptr) missing.push_back(content);
  }
  link.pool->touch(copies);
  const kv::AtEnd unpin{[&] {
    for (const int32_t id : copies) link.pool->free_blocks({&id, 1});  // two may have one copy
  }};
  std::vector<BlockMove> moves;
  moves.reserve(missing.size());
  bool started = false;
  const kv::AtEnd undo{[&] {
    for (const BlockMove& move : moves) {
      if (started) return;
      link.pool->evict_blocks({&move.lower, 1});
      link.pool->free_blocks({&move.lower, 1});
    }
  }};
  for (const CachedBlock* const content : missing) {
    const BlockKey key = key_of(*link.above, *content);
    if (link.pool->index().find(key) != nullptr) continue;  // two blocks hold the same
    const auto room = take(tier);
    if (!room) break;
    moves.push_back({.upper = content->id, .lower = *room});
    link.pool->cache_full_block(*room, key);
  }
  if (moves.empty()) return;
  start(link, Way::kDown, moves);
  started = true;
}

/// The lower tiers first: what is about to be copied further down is not overwritten now.
void TieredManager::sink() {
  const auto num_ahead = static_cast<size_t>(tier_options_.sink_ahead);
  for (size_t tier = links_.size(); tier-- > 0;) {
    sink_into(tier, worth_sinking(tier, num_ahead));
  }
}

/// Again the lower tiers first: what a block overwrites has sunk by then.
void TieredManager::flush() {
  for (size_t first = links_.size(); first-- > 0;) {
    for (size_t tier = first; tier < links_.size(); ++tier) {
      wait_for_all();
      const auto blocks = worth_sinking(tier, at(links_[tier].above->num_free()));
      const size_t most = at(links_[tier].pool->num_blocks());
      sink_into(tier, std::span(blocks).last(std::min(blocks.size(), most)));  // those used last
    }
  }
  wait_for_all();
}

void TieredManager::finish_moves() {
  for (size_t tier = 0; tier < links_.size(); ++tier) {
    Link& link = links_[tier];
    link.done = link.transfers->completed();
    const std::vector<int32_t> damaged = link.transfers->take_damaged();
    link.metrics.num_damaged += std::ssize(damaged);
    link.pool->evict_blocks(damaged);  // nobody finds them any more, nor land() their content
    while (!link.moves.empty() && link.moves.front().ticket <= link.done) {
      land(tier, link.moves.front());
      link.moves.pop_front();
    }
  }
}

void TieredManager::land(size_t tier, const Move& move) {
  Link& link = links_[tier];
  const bool up = move.way == Way::kUp;
  (up ? link.metrics.num_risen : link.metrics.num_sunk) += std::ssize(move.blocks);
  std::vector<int32_t> lower, upper;
  for (const BlockMove& block : move.blocks) {
    lower.push_back(block.lower);
    if (tier == 0 || !up) continue;  // the device's blocks belong to a request
    upper.push_back(block.upper);
    const CachedBlock* const content = link.pool->index().block(block.lower);
    if (content != nullptr) link.above->cache_full_block(block.upper, key_of(*link.pool, *content));
  }
  // What sinks is named tail first, and is freed head first: tails are overwritten before heads.
  if (!up) std::reverse(lower.begin(), lower.end());
  link.above->free_blocks(upper);
  link.pool->free_blocks(lower);
}

void TieredManager::wait_for_a_move() {
  for (Link& link : links_) {
    if (link.moves.empty()) continue;
    link.transfers->wait(link.moves.front().ticket);
    return;
  }
}

void TieredManager::wait_for_all() {
  for (Link& link : links_) {
    if (!link.moves.empty()) link.transfers->wait(link.moves.back().ticket);
  }
  finish_moves();
}

std::optional<std::span<const int32_t>> TieredManager::allocate_slots(
    int64_t id, int num_new_tokens, const ComputedBlocks& computed, int must_fit) {
  const auto blocks = KvCacheManager::allocate_slots(id, num_new_tokens, computed, must_fit);
  if (!blocks) return blocks;
  for (const int32_t block : *blocks) {
    if (links_[0].is_busy(block))
      write_ticket_ = std::max(write_ticket_, links_[0].busy[at(block)]);
  }
  return blocks;
}

Ticket TieredManager::take_write_ticket() { return std::exchange(write_ticket_, 0); }

bool TieredManager::reset_prefix_cache() {
  if (pool().num_used() > 0) return false;
  wait_for_all();
  KvCacheManager::reset_prefix_cache();
  for (Link& link : links_) {
    link.pool->reset_prefix_cache();
    link.transfers->forget_all();
  }
  return true;
}

}  // namespace lesson11
