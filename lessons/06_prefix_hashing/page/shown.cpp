#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "cli/hashers.h"
#include "prefix.h"

namespace lesson06 {
namespace {

std::string name_of(const std::optional<PrefixId>& prefix) {
  return prefix ? fmt::format("prefix {}", *prefix) : "the start";
}

/// The blocks with this hash, in the order of their bucket's chain, as the index looks at them.
std::vector<const CachedBlock*> blocks_with(const PrefixIndex& index, uint64_t hash) {
  std::vector<const CachedBlock*> blocks;
  for (int32_t id = 0; id < index.num_ids(); ++id) {
    const CachedBlock* const block = index.block(id);
    if (block != nullptr && block->hash == hash) blocks.push_back(block);
  }
  std::ranges::sort(blocks, std::greater<>(), [&](const CachedBlock* block) {
    int after = 0;
    for (; block->next != CachedBlock::kEnd; block = index.block(block->next)) ++after;
    return after;
  });
  return blocks;
}

/// A hash as text: its last three hexadecimal digits.
std::string short_hash(uint64_t hash) {
  return hash > 0xFFF ? fmt::format("#{:03x}", hash & 0xFFF) : fmt::format("#{:x}", hash);
}

}  // namespace

/// Repeats a lookup, and notes the candidates on its way.
Lookup PrefixPage::walk(std::span<const int32_t> tokens, const BlockHashes& hashes,
                        const ComputedBlocks& computed) const {
  Lookup lookup{.num_found = computed.block_ids.size(), .num_refused = computed.num_refused};
  const PrefixIndex& index = pool_->index();
  const size_t num_links = (tokens.size() - 1) / static_cast<size_t>(settings_.block_size);
  PrefixChain chain;  // the matched prefix
  for (size_t i = 0; i < num_links && i <= lookup.num_found; ++i) {
    const BlockKey key = next_key(chain, tokens, hashes, settings_.block_size);
    const bool found = i < lookup.num_found;
    const CachedBlock* const taken = found ? index.block(computed.block_ids[i]) : nullptr;
    Comparison met{.link = i, .after = name_of(chain.prefix), .candidates = {}};
    for (const CachedBlock* block : blocks_with(index, key.hash)) {
      met.candidates.push_back({.id = block->id,
                                .after = name_of(block->parent),
                                .words = words(index.tokens(block->id)),
                                .is_same = same_content(index.key_of(*block), key)});
      if (block == taken) break;
    }
    if (found) chain = {chain.num_blocks + 1, taken->prefix};
    lookup.num_others += std::ssize(met.candidates) - (found ? 1 : 0);
    if (std::ranges::all_of(met.candidates, &Candidate::is_same)) continue;
    met.trusted = found && !met.candidates.back().is_same;
    lookup.comparison = std::move(met);
  }
  return lookup;
}

/// The request's tokens up to the end of its block `index`.
std::span<const int32_t> PrefixPage::beginning(const Requests::Request& request,
                                               size_t index) const {
  const size_t end = (index + 1) * static_cast<size_t>(settings_.block_size);
  return std::span(request.tokens).first(std::min(request.tokens.size(), end));
}

/// Whether block `index` of the request holds K and V of another prefix than the request's.
bool PrefixPage::is_wrong(const Requests::Request& request, size_t index) const {
  const int32_t id = manager_->table(request.id).block_ids()[index];
  return !std::ranges::equal(written_[id], beginning(request, index));
}

int PrefixPage::num_wrong() const {
  int wrong = 0;
  for (const Requests::Request& request : asked_.all()) {
    const size_t num_blocks = manager_->table(request.id).block_ids().size();
    for (size_t i = 0; i < num_blocks; ++i) wrong += is_wrong(request, i);
  }
  return wrong;
}

Shown PrefixPage::look() {
  Shown shown;
  const auto& pool = manager().pool();
  shown.pool = viz::pool_view(manager().block_size(), 0, pool.num_blocks(),
                              [&](int32_t id) { return pool.ref_cnt(id); });
  shown.pool.show_refs = false;
  for (viz::BlockView& block : shown.pool.blocks) {
    if (pool.index().block(block.id) == nullptr) continue;
    block.tokens = words(pool.index().tokens(block.id));
    block.filled = manager().block_size();
    if (block.ref_cnt == 0) block.state = viz::State::kCached;
  }
  const std::vector<Requests::Request> all = requests();
  for (const Requests::Request& request : all) {
    const BlockTable& table = manager().table(request.id);
    shown.tables.push_back(shown.pool.add(request, table.block_ids(), table.num_tokens(),
                                          [&](int t) { return word(request.tokens[t]); }));
  }
  add_nodes(shown);
  const auto seen = std::ranges::find(all, selected(), &Requests::Request::name);
  const bool asked = std::exchange(asked_now_, false);
  if (!all.empty()) add_links(shown, asked || seen == all.end() ? all.back() : *seen, asked);
  if (asked && !live_.running()) shown.comparison = lookup_.comparison;
  shown.reason = shown_.reason;
  return shown;
}

/// A cached block comes after the block with its parent's prefix. A block that is not cached comes
/// after the one before it in its table.
void PrefixPage::add_nodes(Shown& shown) const {
  const PrefixIndex& index = manager().pool().index();
  const auto node_of = [&](auto matches) -> std::optional<size_t> {
    const auto node = std::ranges::find_if(shown.nodes, matches, &Shown::Node::id);
    if (node == shown.nodes.end()) return std::nullopt;
    return node - shown.nodes.begin();
  };
  std::vector<const CachedBlock*> cached;
  for (const viz::BlockView& block : shown.pool.blocks) {
    if (const CachedBlock* found = index.block(block.id)) cached.push_back(found);
  }
  std::ranges::sort(cached, {}, &CachedBlock::prefix);  // a parent's number is smaller
  for (const CachedBlock* block : cached) {
    shown.nodes.push_back({block->id, short_hash(block->hash), node_of([&](int32_t id) {
                             const CachedBlock* const other = index.block(id);
                             return block->parent && other->prefix == *block->parent;
                           })});
  }
  for (const viz::TableView& table : shown.tables) {
    for (size_t i = 0; i < table.block_ids.size(); ++i) {
      if (index.block(table.block_ids[i]) != nullptr) continue;
      shown.nodes.push_back({table.block_ids[i], "", node_of([&](int32_t id) {
                               return i > 0 && id == table.block_ids[i - 1];
                             })});
    }
  }
}

/// `asked`: the last command looked the request up.
void PrefixPage::add_links(Shown& shown, const Requests::Request& request, bool asked) const {
  const size_t size = manager().block_size();
  const BlockTable& table = manager().table(request.id);
  const auto hashes = hash_chain(request.tokens, table.block_size(),
                                 narrow_hasher(live_.running() ? 64 : settings_.bits));
  shown.asker = request.name;
  shown.hue = request.hue;
  for (size_t i = 0; i < table.block_ids().size(); ++i) {
    const size_t end = std::min<size_t>((i + 1) * size, table.num_tokens());
    shown.links.push_back(
        {.words = words(std::span(request.tokens).subspan(i * size, end - i * size)),
         .hash = i < hashes.size() ? short_hash(hashes[i]) : "",
         .id = table.block_ids()[i],
         .found = i * size < static_cast<size_t>(request.num_cached_tokens),
         .wrong = !live_.running() && is_wrong(request, i)});
  }
  if (!asked) return;
  shown.asked = true;
  const size_t found = static_cast<size_t>(request.num_cached_tokens) / size;
  shown.num_looked_up = std::min(found + 1, (request.tokens.size() - 1) / size);
}

}  // namespace lesson06
