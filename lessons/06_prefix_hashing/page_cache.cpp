#include "page_cache.h"

#include <numeric>
#include <stdexcept>

#include "program/forgery.h"
#include "program/hashers.h"

namespace lesson06 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

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
  const ComputedBlocks computed = manager_->get_computed_blocks(tokens);
  const auto num_tokens = static_cast<int>(tokens.size());
  const int rest = num_tokens - computed.num_tokens;
  if (!manager_->allocate_slots(next_id_, rest, computed)) {
    kv::user_error("ask {}: needs {} beside those it finds, {} free", name,
                   kv::count_of(blocks_for(rest, settings_.block_size), "block"),
                   pool_->num_free());
  }
  num_asked_ += num_tokens;
  num_found_ += computed.num_tokens;
  num_refused_ += computed.num_refused;
  const auto ids = manager_->table(next_id_).block_ids();
  const size_t first_new = computed.block_ids.size();
  for (size_t i = first_new; i < ids.size(); ++i) {
    const size_t end = std::min(tokens.size(), (i + 1) * at(settings_.block_size));
    written_[at(ids[i])].assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  manager_->cache_blocks(next_id_, tokens, num_tokens);
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
