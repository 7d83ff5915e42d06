#include "page_cache.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "program/forgery.h"
#include "program/hashers.h"

namespace lesson06 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

/// In the order in which the index looks at them: as they stand in the chain of their bucket.
std::vector<const CachedBlock*> blocks_with(const PrefixIndex& index, uint64_t hash) {
  std::vector<std::pair<int, const CachedBlock*>> found;  // how many come after it
  for (int32_t id = 0; id < index.num_ids(); ++id) {
    const CachedBlock* const block = index.block(id);
    if (block == nullptr || block->hash != hash) continue;
    int after = 0;
    for (int32_t next = block->next; next != CachedBlock::kEnd; next = index.block(next)->next) {
      ++after;
    }
    found.emplace_back(-after, block);
  }
  std::ranges::sort(found);
  std::vector<const CachedBlock*> blocks;
  for (const auto& [order, block] : found) blocks.push_back(block);
  return blocks;
}

}  // namespace

WordCache::WordCache(const Settings& settings)
    : settings_(settings), written_(at(settings.num_blocks)) {
  pool_ = std::make_unique<BlockPool>(
      settings.num_blocks, settings.block_size,
      settings.exact ? PrefixIndex::Check::kExact : PrefixIndex::Check::kHashOnly);
  manager_ = std::make_unique<KvCacheManager>(
      *pool_, CacheManagerOptions{.hasher = narrow_hasher(settings.bits)});
}

std::string WordCache::ask(const std::string& name, std::vector<int32_t> tokens) {
  BlockHashes hashes;
  const ComputedBlocks computed = manager_->get_computed_blocks(tokens, hashes);
  const auto num_tokens = static_cast<int>(tokens.size());
  const int rest = num_tokens - computed.num_tokens;
  std::vector<Step> walk = walk_of(tokens, computed);  // candidates may be overwritten
  if (!manager_->allocate_slots(next_id_, rest, computed)) {
    kv::user_error("ask {}: needs {} beside those it finds, {} free", name,
                   kv::count_of(blocks_for(rest, settings_.block_size), "block"),
                   pool_->num_free());
  }
  num_refused_ += computed.num_refused;
  last_refused_ = computed.num_refused;
  walk_ = std::move(walk);
  const auto ids = manager_->table(next_id_).block_ids();
  const size_t first_new = computed.block_ids.size();
  for (size_t i = first_new; i < ids.size(); ++i) {
    const size_t end = std::min(tokens.size(), (i + 1) * at(settings_.block_size));
    written_[at(ids[i])].assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  manager_->cache_blocks(next_id_, tokens, hashes, num_tokens);
  std::string story = fmt::format("{}: {} of {} from the cache", name, computed.num_tokens,
                                  kv::count_of(num_tokens, "token"));
  if (first_new > 0) story += fmt::format(", blocks {}", fmt::join(ids.first(first_new), " "));
  const Request& request =
      requests_.add(name, {{}, next_id_++, computed.num_tokens, std::move(tokens)});
  if (const int wrong = num_wrong(request); wrong > 0) {
    story += fmt::format("; {} of them hold K and V of another prefix!", wrong);
  }
  return story;
}

std::vector<WordCache::Step> WordCache::walk_of(std::span<const int32_t> tokens,
                                                const ComputedBlocks& computed) const {
  std::vector<Step> walk;
  const PrefixIndex& index = pool_->index();
  const auto size = at(settings_.block_size);
  const auto hashes = hash_chain(tokens, settings_.block_size, narrow_hasher(settings_.bits));
  for (size_t i = 0; i < hashes.size() && (i + 1) * size < tokens.size(); ++i) {
    Step& step = walk.emplace_back();
    if (i > 0) step.parent = index.block(computed.block_ids[i - 1])->prefix;
    step.found = i < computed.block_ids.size();
    const BlockKey key{.hash = hashes[i],
                       .parent = step.parent,
                       .tokens = tokens.subspan(i * size, size),
                       .extra_keys = {}};
    for (const CachedBlock* block : blocks_with(index, hashes[i])) {
      const auto held = index.tokens(block->id);
      const BlockKey other{.hash = block->hash,
                           .parent = block->parent,
                           .tokens = held,
                           .extra_keys = block->extra_keys};
      step.candidates.push_back(
          {block->id, block->parent, {held.begin(), held.end()}, same_content(other, key)});
      if (step.found && block->id == computed.block_ids[i]) break;
    }
    if (!step.found) break;
  }
  return walk;
}

std::string WordCache::free(const std::string& name) {
  manager_->free(requests_.at(name).id);
  requests_.erase(name);
  return fmt::format("free {}: its full blocks can still be found", name);
}

bool WordCache::is_wrong(const Request& request, int index) const {
  const int32_t id = manager_->table(request.id).block_ids()[at(index)];
  const size_t end = std::min(request.tokens.size(), at(index + 1) * at(settings_.block_size));
  const std::vector<int32_t>& held = written_[at(id)];
  return held.size() != end || !std::equal(held.begin(), held.end(), request.tokens.begin());
}

int WordCache::num_wrong(const Request& request) const {
  int wrong = 0;
  for (int i = 0; i < manager_->table(request.id).num_blocks(); ++i) wrong += is_wrong(request, i);
  return wrong;
}

int WordCache::num_wrong() const {
  int wrong = 0;
  for (const Request& request : requests_) wrong += num_wrong(request);
  return wrong;
}

void WordCache::check() const {
  manager_->check();
  int64_t refused = 0;
  for (const Step& step : walk_) refused += std::ssize(step.candidates) - step.found;
  if (refused != last_refused_) throw std::logic_error("the walk shows other candidates");
  if (settings_.exact && num_wrong() > 0) {
    throw std::logic_error("a request reads K and V of another prefix");
  }
}

std::vector<int32_t> forged_prompt(bool second) {
  std::vector<int32_t> tokens(16);
  std::iota(tokens.begin(), tokens.end(), 200'000);
  const std::vector<int32_t>& own = second ? kForgedB : kForgedA;
  tokens.insert(tokens.end(), own.begin(), own.end());
  tokens.push_back(200'100);
  return tokens;
}

}  // namespace lesson06
