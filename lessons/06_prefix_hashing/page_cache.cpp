#include "page_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "common/base/error.h"
#include "viz/names.h"

namespace lesson06 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

void check_settings(const WordCache::Settings& s) {
  if (s.num_blocks < 1 || s.num_blocks > WordCache::kMaxBlocks) {
    kv::user_error("{} blocks: wanted 1 to {}", s.num_blocks, WordCache::kMaxBlocks);
  }
  if (s.block_size < 1 || s.block_size > 64 ||
      !std::has_single_bit(static_cast<unsigned>(s.block_size))) {
    kv::user_error("block size {}: wanted a power of two from 1 to 64", s.block_size);
  }
  if (s.bits < 0 || s.bits > 64) kv::user_error("{} bits: wanted 0 to 64", s.bits);
}

}  // namespace

WordCache::WordCache(const Settings& settings) : settings_(settings) {
  check_settings(settings);
  manager_ = std::make_unique<BlockManager>(
      settings.num_blocks, settings.block_size, narrow_hasher(settings.bits),
      settings.exact ? PrefixIndex::Check::kExact : PrefixIndex::Check::kHashOnly);
  written_.resize(at(settings.num_blocks));
}

int32_t WordCache::token_of(const std::string& word) {
  const auto [entry, added] = tokens_.emplace(word, static_cast<int32_t>(words_.size()));
  if (added) words_.push_back(word);
  return entry->second;
}

std::string WordCache::ask(const std::string& name, const std::string& text) {
  std::istringstream in(text);
  std::vector<int32_t> tokens;
  for (std::string word; in >> word;) tokens.push_back(token_of(word));
  if (tokens.empty()) kv::user_error("ask {}: wanted at least one word", name);
  return ask(name, std::move(tokens));
}

std::string WordCache::ask(const std::string& name, std::vector<int32_t> tokens) {
  if (name.empty() || name.size() > 8) {
    kv::user_error("request name \"{}\": wanted 1 to 8 characters", name);
  }
  if (requests_.contains(name)) kv::user_error("there is a request {} already", name);
  if (const std::string why = why_not_ask(); !why.empty()) kv::user_error("ask {}: {}", name, why);
  const BlockManager::Start start = manager_->start(tokens);
  const Growth growth{.seq = start.seq,
                      .num_tokens = static_cast<int>(tokens.size()) - start.num_cached_tokens};
  if (!manager_->extend({&growth, 1})) {
    const int num_free = manager_->pool().num_free();
    const int needed = manager_->table(start.seq).blocks_to_extend(growth.num_tokens);
    manager_->free_sequence(start.seq);
    kv::user_error("ask {}: needs {} more blocks, {} are free", name, needed, num_free);
  }
  const auto ids = manager_->table(start.seq).block_ids();
  const auto first_new = at(start.num_cached_tokens / settings_.block_size);
  for (size_t i = first_new; i < ids.size(); ++i) {
    const size_t end = std::min(tokens.size(), (i + 1) * at(settings_.block_size));
    written_[at(ids[i])].assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  manager_->publish(start.seq, tokens);
  const int hue = viz::free_hue(requests_);
  std::string story = fmt::format("{}: {} of {} tokens from the cache", name,
                                  start.num_cached_tokens, tokens.size());
  if (first_new > 0) story += fmt::format(", blocks {}", fmt::join(ids.first(first_new), " "));
  requests_[name] = {.seq = start.seq,
                     .hue = hue,
                     .num_cached_tokens = start.num_cached_tokens,
                     .tokens = std::move(tokens)};
  int wrong = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    wrong += is_wrong(requests_[name], static_cast<int>(i));
  }
  if (wrong > 0) story += fmt::format("; {} of them hold K and V of another prefix!", wrong);
  return story;
}

std::string WordCache::free(const std::string& name) {
  const auto found = requests_.find(name);
  if (found == requests_.end()) kv::user_error("there is no request {}", name);
  manager_->free_sequence(found->second.seq);
  requests_.erase(found);
  return fmt::format("free {}: its full blocks can still be found", name);
}

std::vector<std::string> WordCache::names() const {
  std::vector<std::string> names;
  for (const auto& [name, request] : requests_) names.push_back(name);
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return requests_.at(a).seq < requests_.at(b).seq;
  });
  return names;
}

std::string WordCache::free_name() const { return viz::free_name(requests_); }

std::string WordCache::why_not_ask() const {
  if (static_cast<int>(requests_.size()) < kMaxRequests) return "";
  return fmt::format("there are {} requests, the most the page shows; free one", kMaxRequests);
}

std::string WordCache::word(int32_t token) const {
  if (token >= 0 && at(token) < words_.size()) return words_[at(token)];
  return std::to_string(token);
}

const std::vector<int32_t>& WordCache::written(int32_t block_id) const {
  return written_.at(at(block_id));
}

bool WordCache::is_wrong(const Request& request, int index) const {
  const int32_t id = manager_->table(request.seq).block_ids()[at(index)];
  const size_t end = std::min(request.tokens.size(), at(index + 1) * at(settings_.block_size));
  const std::vector<int32_t>& held = written_[at(id)];
  return held.size() != end || !std::equal(held.begin(), held.end(), request.tokens.begin());
}

int WordCache::num_wrong() const {
  int wrong = 0;
  for (const auto& [name, request] : requests_) {
    const int blocks = manager_->table(request.seq).num_blocks();
    for (int i = 0; i < blocks; ++i) wrong += is_wrong(request, i);
  }
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
  const std::vector<int32_t> a{1000, 1001, 148912, 115505, 1004, 1005, 1006, 1007,
                               1008, 1009, 37649,  19953,  1012, 1013, 1014, 1015};
  const std::vector<int32_t> b{1000, 1001, 70013, 105460, 1004, 1005, 1006, 1007,
                               1008, 1009, 0,     0,      1012, 1013, 1014, 1015};
  const std::vector<int32_t>& own = second ? b : a;
  tokens.insert(tokens.end(), own.begin(), own.end());
  tokens.push_back(200'100);
  return tokens;
}

}  // namespace lesson06
