#pragma once

// A simple, slow model of a pool that is a cache. For tests: it predicts which blocks each
// operation of the real pool finds, takes and leaves.

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>

#include "lessons/07_lru_eviction/test/symbolic_blocks.h"

namespace lesson07 {

struct CachedBlock {
  int32_t id;
  SymbolicPrefix prefix;
};

class SymbolicPool : public SymbolicBlocks<CachedBlock> {
 public:
  struct Request {
    Ids table;
    Tokens tokens;  // with a slot
    int salt = 0;
  };

  SymbolicPool(int num_blocks, int block_size, FreeOrder order, bool caching = true)
      : SymbolicBlocks(num_blocks, block_size, order), caching_(caching) {}

  /// The blocks that hold the beginning of `tokens`, but never the last token.
  Ids find(const Tokens& tokens, int salt) const {
    Ids found;
    for (size_t end = block_size_; caching_ && end < tokens.size(); end += block_size_) {
      const Prefix prefix{first(tokens, end), salt};
      const auto oldest = std::ranges::find(cached_, prefix, &CachedBlock::prefix);
      if (oldest == cached_.end()) break;
      found.push_back(oldest->id);
    }
    return found;
  }
  /// Starts a request with the blocks found and slots for `num_new` tokens after them. Returns
  /// false if too few blocks are free for these, or for `must_fit` tokens.
  bool start(int64_t id, const Tokens& tokens, int salt, size_t num_new, size_t must_fit = 0,
             bool skips_reading = false) {
    const Ids found = skips_reading ? Ids{} : find(tokens, salt);
    const size_t wanted = std::max(blocks(num_new), blocks(must_fit));
    const auto free_hits = std::ranges::count_if(found, [&](int32_t hit) { return is_free(hit); });
    if (wanted + free_hits > queue_.size()) return false;
    Ids table = found;
    for (const int32_t hit : found) share(hit);
    for (size_t i = 0; i < blocks(num_new); ++i) table.push_back(take());
    requests_[id] = {table, first(tokens, found.size() * block_size_ + num_new), salt};
    return true;
  }
  /// Gives a request slots for more tokens. Returns false, with nothing changed, if they do not
  /// fit.
  bool extend(int64_t id, std::span<const int32_t> tokens) {
    Request& r = requests_.at(id);
    const size_t length = blocks(r.tokens.size() + tokens.size());
    if (length - r.table.size() > queue_.size()) return false;
    while (r.table.size() < length) r.table.push_back(take());
    r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
    return true;
  }
  /// Caches the full blocks of a request's first `num_tokens` tokens.
  void cache_blocks(int64_t id, size_t num_tokens) {
    const Request& r = requests_.at(id);
    for (size_t i = 0; caching_ && (i + 1) * block_size_ <= num_tokens; ++i) {
      if (is_cached(r.table[i])) continue;
      cached_.push_back({r.table[i], {first(r.tokens, (i + 1) * block_size_), r.salt}});
    }
  }
  void free(int64_t id) {
    release(requests_.at(id).table);
    requests_.erase(id);
  }
  bool reset() {
    if (!requests_.empty()) return false;
    cached_.clear();
    return true;
  }

  const std::map<int64_t, Request>& requests() const { return requests_; }

 protected:
  std::map<int64_t, Request> requests_;

 private:
  bool caching_;
};

}  // namespace lesson07
