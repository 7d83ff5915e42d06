#pragma once

// What a pool that is a cache has to do, in plain words and slowly: contents are whole prefixes,
// compared as they are, and the free blocks are a list. For tests: it says which block every
// operation of the real one finds, takes, and leaves.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <ranges>
#include <span>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson07 {

class SymbolicPool {
 public:
  using Tokens = std::vector<int32_t>;
  using Ids = std::vector<int32_t>;
  struct Prefix {
    Tokens tokens;  // from token 0 on
    int salt = 0;
    friend bool operator==(const Prefix&, const Prefix&) = default;
  };
  struct Request {
    Ids table;
    Tokens tokens;  // with a slot
    int salt = 0;
  };

  SymbolicPool(int num_blocks, int block_size, FreeOrder order, bool caching = true)
      : block_size_(at(block_size)), order_(order), caching_(caching), refs_(at(num_blocks + 1)) {
    for (int32_t id = 1; id <= num_blocks; ++id) queue_.push_back(id);
  }

  /// The blocks that hold the beginning of `tokens`, but never the last token.
  Ids find(const Tokens& tokens, int salt) const {
    Ids found;
    for (size_t end = block_size_; caching_ && end < tokens.size(); end += block_size_) {
      const Prefix prefix{first(tokens, end), salt};
      const auto oldest = std::ranges::find(cached_, prefix, &Cached::prefix);
      if (oldest == cached_.end()) break;
      found.push_back(oldest->id);
    }
    return found;
  }
  /// A new request: what is found, and slots for `num_new` tokens after it. False: too few blocks
  /// for these, or for `must_fit` tokens.
  bool start(int64_t id, const Tokens& tokens, int salt, size_t num_new, size_t must_fit = 0,
             bool skips_reading = false) {
    const Ids found = skips_reading ? Ids{} : find(tokens, salt);
    const size_t needed = (num_new + block_size_ - 1) / block_size_;
    const size_t wanted = std::max(needed, (must_fit + block_size_ - 1) / block_size_);
    const auto free_hits =
        std::ranges::count_if(found, [&](int32_t hit) { return refs_[at(hit)] == 0; });
    if (wanted + at(free_hits) > queue_.size()) return false;
    Ids table = found;
    for (const int32_t hit : found) {
      if (refs_[at(hit)] == 0) std::erase(queue_, hit);
      ++refs_[at(hit)];
    }
    for (size_t i = 0; i < needed; ++i) table.push_back(take());
    requests_[id] = {table, first(tokens, found.size() * block_size_ + num_new), salt};
    return true;
  }
  /// Slots for more tokens of a request, or for none of them.
  bool extend(int64_t id, std::span<const int32_t> tokens) {
    Request& r = requests_.at(id);
    const size_t blocks = (r.tokens.size() + tokens.size() + block_size_ - 1) / block_size_;
    if (blocks - r.table.size() > queue_.size()) return false;
    while (r.table.size() < blocks) r.table.push_back(take());
    r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
    return true;
  }
  /// K and V of the first `num_tokens` tokens are written.
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

  size_t block_size() const { return block_size_; }
  const std::map<int64_t, Request>& requests() const { return requests_; }
  const std::deque<int32_t>& queue() const { return queue_; }
  /// True if blocks and order of the real pool's queue are these.
  bool same_queue(const BlockPool& pool) const {
    const auto real = pool.queue().all();
    return std::ranges::equal(real, queue_, {}, [](const KvBlock* block) { return block->id; });
  }

 protected:
  /// Blocks that one table no longer names.
  void release(const Ids& ids) {
    Ids to_front;
    for (const int32_t block_id : std::views::reverse(ids)) {
      if (--refs_[at(block_id)] > 0) continue;
      const bool first = order_ == FreeOrder::kUnhashedFirst && !is_cached(block_id);
      if (first) to_front.push_back(block_id);
      if (!first) queue_.push_back(block_id);
    }
    queue_.insert(queue_.begin(), to_front.begin(), to_front.end());
  }
  size_t block_size_;
  std::map<int64_t, Request> requests_;

 private:
  struct Cached {
    int32_t id;
    Prefix prefix;
  };
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  static Tokens first(const Tokens& tokens, size_t n) {
    return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
  }
  bool is_cached(int32_t id) const { return std::ranges::count(cached_, id, &Cached::id) > 0; }
  int32_t take() {
    const int32_t id = queue_.front();
    queue_.pop_front();
    refs_[at(id)] = 1;
    std::erase_if(cached_, [&](const Cached& block) { return block.id == id; });
    return id;
  }

  FreeOrder order_;
  bool caching_;
  std::vector<int> refs_;       // [num_blocks + 1]
  std::vector<Cached> cached_;  // the oldest first
  std::deque<int32_t> queue_;
};

}  // namespace lesson07
