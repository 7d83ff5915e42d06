#include "kv_cache_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lessons/05_refcount_cow/holders.h"

namespace lesson08 {

KvCacheManager::KvCacheManager(const Options& options)
    : caching_(options.caching),
      max_blocks_per_request_(static_cast<size_t>(options.max_blocks_per_request)),
      pool_(options.num_blocks, options.block_size, options.free_order, options.hash_bits) {}

ComputedBlocks KvCacheManager::get_computed_blocks(std::span<const int32_t> tokens,
                                                   const ExtraKeys& extra_keys) const {
  ComputedBlocks computed;
  if (!caching_) return computed;
  const auto size = static_cast<size_t>(block_size());
  for (size_t end = size; end < tokens.size(); end += size) {  // < : the last token is left
    const auto block = tokens.subspan(end - size, size);
    const uint64_t hash = lesson07::hash_block(computed.hash, block, extra_keys);
    const auto match = pool_.find(hash, computed.prefix, block, extra_keys);
    if (!match) break;
    computed.block_ids.push_back(match->block_id);
    computed.hash = hash;
    computed.prefix = match->prefix;
  }
  computed.num_tokens = static_cast<int>(computed.block_ids.size()) * block_size();
  return computed;
}

bool KvCacheManager::allocate_slots(int64_t id, int num_new_tokens, const ComputedBlocks& computed,
                                    const ExtraKeys& extra_keys) {
  if (const auto found = held_.find(id); found != held_.end()) {
    BlockTable& table = found->second.table;
    const auto needed = static_cast<size_t>(table.blocks_to_extend(num_new_tokens));
    if (needed > static_cast<size_t>(pool_.num_free())) return false;
    make_room(table, needed);
    ids_.resize(needed);
    if (needed > 0) pool_.get_new_blocks(ids_);
    table.extend(num_new_tokens, ids_);
    return true;
  }
  // A hit on a free block takes one from the free ones, too.
  const auto revived = std::ranges::count_if(
      computed.block_ids, [&](int32_t block) { return pool_.block(block).ref_cnt == 0; });
  const int needed = blocks_for(num_new_tokens, block_size());
  if (needed + revived > pool_.num_free()) return false;

  Held held{.table = BlockTable(block_size()),
            .extra_keys = extra_keys,
            .num_published = static_cast<int>(computed.block_ids.size()),
            .hash = computed.hash,
            .prefix = computed.prefix};
  const size_t all = computed.block_ids.size() + static_cast<size_t>(needed);
  make_room(held.table, std::max(all, max_blocks_per_request_));
  ids_.resize(static_cast<size_t>(needed));
  pool_.expect_events(ids_.size());
  BlockTable& table = held_.emplace(id, std::move(held)).first->second.table;
  // From here on nothing can fail: no block is taken that no table names.
  pool_.touch(computed.block_ids);
  pool_.get_new_blocks(ids_);
  table.extend(computed.num_tokens, computed.block_ids);
  table.extend(num_new_tokens, ids_);
  return true;
}

/// For so many more blocks of the table, and for giving all of them back: what allocates, does it
/// before anything changes, and free() does not.
void KvCacheManager::make_room(BlockTable& table, size_t more) {
  const size_t all = static_cast<size_t>(table.num_blocks()) + more;
  table.reserve(all);
  if (ids_.capacity() < all) ids_.reserve(2 * all);
}

void KvCacheManager::cache_blocks(int64_t id, std::span<const int32_t> tokens, int num_computed) {
  Held& held = find(id);
  if (num_computed > held.table.num_tokens() || static_cast<size_t>(num_computed) > tokens.size()) {
    throw std::invalid_argument(fmt::format("cache_blocks: {} computed tokens of {} with {} slots",
                                            num_computed, tokens.size(), held.table.num_tokens()));
  }
  if (!caching_) return;
  const auto size = static_cast<size_t>(block_size());
  for (const int num_full = num_computed / block_size(); held.num_published < num_full;
       ++held.num_published) {
    const auto i = static_cast<size_t>(held.num_published);
    const auto block = tokens.subspan(i * size, size);
    const uint64_t hash = lesson07::hash_block(held.hash, block, held.extra_keys);
    held.prefix = pool_.cache_full_block(held.table.block_ids()[i], hash, held.prefix, block,
                                         held.extra_keys);
    held.hash = hash;
  }
}

void KvCacheManager::free(int64_t id) {
  const std::span<const int32_t> ids = find(id).table.block_ids();
  ids_.assign(ids.rbegin(), ids.rend());  // tails are taken before heads
  pool_.free_blocks(ids_);
  held_.erase(id);
}

KvCacheManager::Held& KvCacheManager::find(int64_t id) {
  const auto found = held_.find(id);
  if (found == held_.end()) {
    throw std::out_of_range(fmt::format("KvCacheManager: request {} holds no blocks", id));
  }
  return found->second;
}

const BlockTable& KvCacheManager::table(int64_t id) const {
  return const_cast<KvCacheManager*>(this)->find(id).table;
}

int64_t KvCacheManager::num_slots_used() const {
  // Only full blocks are shared: what is empty is in last blocks, and each has one holder.
  int64_t empty = 0;
  for (const auto& [id, held] : held_) {
    if (held.table.num_blocks() > 0) empty += block_size() - held.table.last_block_fill();
  }
  return int64_t{pool_.num_used()} * block_size() - empty;
}

void KvCacheManager::check() const {
  pool_.check();
  lesson05::Holders holders(pool_.num_blocks() + 1);  // block 0 is nobody's
  for (const auto& [request, held] : held_) holders.add(request, held.table);
  for (int32_t id = 1; id <= pool_.num_blocks(); ++id) holders.check(id, pool_.block(id).ref_cnt);
}

}  // namespace lesson08
