#include "cache.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cli/forgery.h"
#include "cli/hashers.h"

namespace lesson06 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

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

}  // namespace

WordCache::WordCache(const CacheSettings& settings, const viz::Vocabulary& vocabulary)
    : settings_(settings),
      vocabulary_(&vocabulary),
      pool_(settings.num_blocks, settings.block_size,
            settings.trust_hash ? PrefixIndex::Check::kHashOnly : PrefixIndex::Check::kExact),
      manager_(pool_, {.hasher = narrow_hasher(settings.bits)}),
      written_(at(settings.num_blocks)) {}

std::string WordCache::ask(const std::string& name, std::vector<int32_t> tokens) {
  Lookup lookup;
  const Request& request = requests_.ask(
      manager_, name, std::move(tokens), {}, [&](const auto& wanted, const auto& computed) {
        lookup = walk(wanted, computed);  // before the candidates may be overwritten
      });
  lookup_ = std::move(lookup);
  num_refused_ += lookup_.num_refused;
  const auto ids = manager_.table(request.id).block_ids();
  const auto found = ids.first(lookup_.num_found);
  for (size_t i = found.size(); i < ids.size(); ++i) {
    const size_t end = std::min(request.tokens.size(), (i + 1) * at(settings_.block_size));
    const auto first = request.tokens.begin();
    written_[at(ids[i])].assign(first, first + static_cast<std::ptrdiff_t>(end));
  }
  std::string story = fmt::format("{}: {} of {} from the cache", name, request.num_cached_tokens,
                                  kv::count_of(std::ssize(request.tokens), "token"));
  if (!found.empty()) story += fmt::format(", blocks {}", fmt::join(found, " "));
  if (const int wrong = num_wrong(request); wrong > 0) {
    story += fmt::format("; {} of them hold K and V of another prefix!", wrong);
  }
  return story;
}

/// Repeats the lookup, and notes the candidates on its way.
WordCache::Lookup WordCache::walk(std::span<const int32_t> tokens,
                                  const ComputedBlocks& computed) const {
  Lookup lookup{.num_found = computed.block_ids.size(), .num_refused = computed.num_refused};
  const PrefixIndex& index = pool_.index();
  const auto size = at(settings_.block_size);
  const auto hashes = hash_chain(tokens, settings_.block_size, narrow_hasher(settings_.bits));
  const size_t num_links = std::min(hashes.size(), (tokens.size() - 1) / size);
  for (size_t i = 0; i < num_links && i <= lookup.num_found; ++i) {
    std::optional<PrefixId> parent;  // that was matched
    if (i > 0) parent = index.block(computed.block_ids[i - 1])->prefix;
    const BlockKey key{.hash = hashes[i],
                       .parent = parent,
                       .tokens = tokens.subspan(i * size, size),
                       .extra_keys = {}};
    const bool found = i < lookup.num_found;
    Comparison met{.link = i, .after = name_of(parent), .candidates = {}};
    for (const CachedBlock* block : blocks_with(index, hashes[i])) {
      const auto held = index.tokens(block->id);
      const BlockKey other{.hash = block->hash,
                           .parent = block->parent,
                           .tokens = held,
                           .extra_keys = block->extra_keys};
      met.candidates.push_back({block->id, name_of(block->parent), {}, same_content(other, key)});
      for (const int32_t t : held) met.candidates.back().words.push_back(vocabulary_->word(t));
      if (found && block->id == computed.block_ids[i]) break;
    }
    lookup.num_others += std::ssize(met.candidates) - (found ? 1 : 0);
    if (std::ranges::all_of(met.candidates, &Candidate::is_same)) continue;
    met.trusted = found && !met.candidates.back().is_same;
    lookup.comparison = std::move(met);
  }
  return lookup;
}

bool WordCache::is_wrong(const Request& request, int index) const {
  const int32_t id = manager_.table(request.id).block_ids()[at(index)];
  const size_t end = std::min(request.tokens.size(), at(index + 1) * at(settings_.block_size));
  const std::vector<int32_t>& held = written_[at(id)];
  return held.size() != end || !std::equal(held.begin(), held.end(), request.tokens.begin());
}

int WordCache::num_wrong(const Request& request) const {
  int wrong = 0;
  for (int i = 0; i < manager_.table(request.id).num_blocks(); ++i) wrong += is_wrong(request, i);
  return wrong;
}

int WordCache::num_wrong() const {
  int wrong = 0;
  for (const Request& request : requests_.all()) wrong += num_wrong(request);
  return wrong;
}

void WordCache::check() const {
  manager_.check();
  if (lookup_.num_others != lookup_.num_refused) {
    throw std::logic_error("the walk meets other candidates than the lookup");
  }
  if (!settings_.trust_hash && num_wrong() > 0) {
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
