// What the picture is made of, read off the manager and its index.

#include <fmt/format.h>

#include <algorithm>

#include "page_prefix.h"
#include "program/hashers.h"

namespace lesson06 {
namespace {

/// Of a long one the end.
std::string short_hash(uint64_t hash) {
  return hash > 0xFFF ? fmt::format("#{:03x}", hash & 0xFFF) : fmt::format("#{:x}", hash);
}

std::string name_of(const std::optional<PrefixId>& prefix) {
  return prefix ? fmt::format("prefix {}", *prefix) : "the start";
}

}  // namespace

std::string PrefixPage::word(int32_t token) {
  return live_.running() ? live_.text(token) : cache_->vocabulary().word(token);
}

std::vector<std::string> PrefixPage::words(std::span<const int32_t> tokens) {
  std::vector<std::string> words;
  for (const int32_t token : tokens) words.push_back(word(token));
  return words;
}

Shown PrefixPage::shown() {
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
  const std::vector<Request> all = requests();
  for (const Request& request : all) {
    const BlockTable& table = manager().table(request.id);
    shown.tables.push_back(shown.pool.add(request, table.block_ids(), table.num_tokens()));
    for (int t = 0; t < table.num_tokens(); ++t) {
      viz::BlockView& block =
          shown.pool.at(table.block_ids()[static_cast<size_t>(t / table.block_size())]);
      if (std::ssize(block.tokens) > t % table.block_size()) continue;
      block.tokens.push_back(word(request.tokens[static_cast<size_t>(t)]));
    }
  }
  add_nodes(shown);
  const auto seen = std::ranges::find(all, selected(), &Request::name);
  const bool selects = asked_.empty() && seen != all.end();
  if (!all.empty()) add_links(shown, selects ? *seen : all.back());
  if (!asked_.empty() && !live_.running()) compare(shown);
  return shown;
}

/// A cached block comes after the block with its parent's prefix, another one after the one before
/// it in its table.
void PrefixPage::add_nodes(Shown& shown) {
  const PrefixIndex& index = manager().pool().index();
  const auto node_of = [&](auto matches) -> std::optional<size_t> {
    for (size_t i = 0; i < shown.nodes.size(); ++i) {
      if (matches(shown.nodes[i].id)) return i;
    }
    return std::nullopt;
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

void PrefixPage::add_links(Shown& shown, const Request& request) {
  const auto size = static_cast<size_t>(manager().block_size());
  const BlockTable& table = manager().table(request.id);
  const auto hashes = hash_chain(request.tokens, table.block_size(),
                                 narrow_hasher(live_.running() ? 64 : cache_->settings().bits));
  shown.asker = request.name;
  for (size_t i = 0; i < table.block_ids().size(); ++i) {
    const size_t end = std::min((i + 1) * size, static_cast<size_t>(table.num_tokens()));
    shown.links.push_back(
        {.words = words(std::span(request.tokens).subspan(i * size, end - i * size)),
         .hash = i < hashes.size() ? short_hash(hashes[i]) : "",
         .id = table.block_ids()[i],
         .found = i * size < static_cast<size_t>(request.num_cached_tokens),
         .wrong = !live_.running() && cache_->is_wrong(request, static_cast<int>(i))});
  }
  if (asked_ != request.name) return;
  shown.asked = true;
  const size_t found = static_cast<size_t>(request.num_cached_tokens) / size;
  shown.num_looked_up = std::min(found + 1, (request.tokens.size() - 1) / size);
}

/// The last link of the walk that had candidates which are not what was wanted.
void PrefixPage::compare(Shown& shown) {
  const auto& walk = cache_->walk();
  for (size_t i = 0; i < walk.size(); ++i) {
    if (std::ranges::all_of(walk[i].candidates, &WordCache::Candidate::is_same)) continue;
    Shown::Comparison comparison{.link = i, .after = name_of(walk[i].parent), .candidates = {}};
    for (const WordCache::Candidate& one : walk[i].candidates) {
      comparison.candidates.push_back(
          {one.block_id, name_of(one.parent), words(one.tokens), one.is_same});
    }
    comparison.trusted = walk[i].found && !walk[i].candidates.back().is_same;
    shown.comparison = std::move(comparison);
  }
}

}  // namespace lesson06
