#pragma once

// A simple, slow model of blocks, the base of the models of lessons 07 and 10. Contents are whole
// prefixes, compared token by token; the free blocks are a list.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson07 {

/// All tokens from token 0 on, and the request's salt.
struct SymbolicPrefix {
  std::vector<int32_t> tokens;
  int salt = 0;
  friend bool operator==(const SymbolicPrefix&, const SymbolicPrefix&) = default;
};

/// A `Cached` has a block's id and its content.
template <class Cached>
class SymbolicBlocks {
 public:
  using Tokens = std::vector<int32_t>;
  using Ids = std::vector<int32_t>;
  using Prefix = SymbolicPrefix;

  size_t block_size() const { return block_size_; }
  const std::deque<int32_t>& queue() const { return queue_; }
  /// Returns whether the real pool's queue has the same blocks in the same order.
  bool same_queue(const BlockPool& pool) const {
    const auto real = pool.queue().all();
    return std::ranges::equal(real, queue_, {}, [](const KvBlock* block) { return block->id; });
  }

 protected:
  SymbolicBlocks(int num_blocks, int block_size, FreeOrder order)
      : block_size_(block_size), order_(order), refs_(num_blocks + 1) {
    for (int32_t id = 1; id <= num_blocks; ++id) queue_.push_back(id);
  }

  static Tokens first(const Tokens& tokens, size_t n) {
    return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
  }
  size_t blocks(size_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
  bool is_cached(int32_t id) const { return std::ranges::count(cached_, id, &Cached::id) > 0; }
  bool is_free(int32_t id) const { return refs_[id] == 0; }

  int32_t take() {
    const int32_t id = queue_.front();
    queue_.pop_front();
    refs_[id] = 1;
    std::erase_if(cached_, [&](const Cached& block) { return block.id == id; });
    return id;
  }
  /// Adds one reference to the block.
  void share(int32_t id) {
    if (refs_[id]++ == 0) std::erase(queue_, id);
  }
  /// Drops one reference to each block.
  void release(const Ids& ids) {
    Ids to_front;
    for (auto next = ids.rbegin(); next != ids.rend(); ++next) {
      const int32_t id = *next;
      if (--refs_[id] > 0) continue;
      const bool first = order_ == FreeOrder::kUnhashedFirst && !is_cached(id);
      if (first) to_front.push_back(id);
      if (!first) queue_.push_back(id);
    }
    queue_.insert(queue_.begin(), to_front.begin(), to_front.end());
  }

  size_t block_size_;
  FreeOrder order_;
  std::vector<int> refs_;       // [num_blocks + 1]
  std::vector<Cached> cached_;  // the oldest first
  std::deque<int32_t> queue_;
};

}  // namespace lesson07
