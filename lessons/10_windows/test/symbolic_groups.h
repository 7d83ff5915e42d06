#pragma once

// What groups of layers have to do, in plain words and slowly: contents are whole prefixes, a hit
// is tried at every length, and the free blocks are a list. For tests: it says which block every
// operation of the coordinator finds, takes, and leaves.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <ranges>
#include <span>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson10 {

class SymbolicGroups {
 public:
  using Tokens = std::vector<int32_t>;
  using Table = std::vector<int32_t>;  // 0: a null block
  struct Prefix {
    Tokens tokens;  // from token 0 on
    int salt = 0;
    friend bool operator==(const Prefix&, const Prefix&) = default;
  };
  struct Request {
    std::vector<Table> tables;  // of each group
    Tokens tokens;              // with a slot
    int salt = 0;
  };

  /// windows[0] is 0; most[g]: blocks that a request holds in group g at most at once, of so many.
  SymbolicGroups(int num_blocks, int block_size, std::vector<int> windows,
                 lesson07::FreeOrder order)
      : size_(at(block_size)),
        windows_(std::move(windows)),
        order_(order),
        refs_(at(num_blocks + 1)) {
    for (int32_t id = 1; id <= num_blocks; ++id) queue_.push_back(id);
  }

  /// Table entries of each group for the longest prefix that every group can go on after.
  std::vector<Table> find(const Tokens& tokens, int salt) const {
    for (size_t n = (tokens.size() - 1) / size_; n > 0; --n) {
      std::vector<Table> tables;
      for (size_t group = 0; group < windows_.size(); ++group) {
        Table table = hit(group, {first(tokens, n * size_), salt});
        if (!table.empty()) tables.push_back(std::move(table));
      }
      if (tables.size() == windows_.size()) return tables;
    }
    return std::vector<Table>(windows_.size());
  }

  /// A new request with what is found. `most` is what it may hold in a group that forgets.
  bool start(int64_t id, const Tokens& tokens, int salt, size_t num_new, size_t must_fit,
             const auto& most) {
    const std::vector<Table> found = find(tokens, salt);
    const size_t computed = found[0].size() * size_;
    size_t wanted = 0;
    for (size_t group = 0; group < found.size(); ++group) {
      const size_t revived = at(std::ranges::count_if(
          found[group], [&](int32_t block) { return block != 0 && refs_[at(block)] == 0; }));
      const size_t all = std::max(blocks(num_new), blocks(must_fit)) + revived;
      const size_t at_once = group == 0 ? all : most(group, computed + must_fit);
      wanted += std::max(blocks(num_new) + revived, std::min(all, at_once));
    }
    if (wanted > queue_.size()) return false;
    for (const Table& table : found) {
      for (const int32_t block : table) {
        if (block == 0) continue;
        if (refs_[at(block)]++ == 0) std::erase(queue_, block);
      }
    }
    requests_[id] = {found, first(tokens, computed), salt};
    grow(requests_[id], std::span(tokens).subspan(computed, num_new));
    return true;
  }

  /// Slots for more tokens of a request, or for none of them; what it forgets goes back first.
  bool extend(int64_t id, std::span<const int32_t> tokens) {
    Request& r = requests_.at(id);
    std::vector<Table> fallen(windows_.size());
    size_t free = queue_.size();
    for (size_t group = 1; group < windows_.size(); ++group) {
      const Table& table = r.tables[group];
      for (size_t i = 0; i < table.size(); ++i) {
        if (table[i] == 0 || !has_left(group, i, r.tokens.size())) continue;
        fallen[group].push_back(table[i]);
        free += refs_[at(table[i])] == 1;
      }
    }
    const size_t needed = blocks(r.tokens.size() + tokens.size()) - r.tables[0].size();
    if (needed * windows_.size() > free) return false;
    for (size_t group = 1; group < windows_.size(); ++group) {
      release(fallen[group]);
      for (const int32_t block : fallen[group]) std::ranges::replace(r.tables[group], block, 0);
    }
    grow(r, tokens);
    return true;
  }

  /// K and V of all tokens with a slot are written.
  void cache_blocks(int64_t id) {
    const Request& r = requests_.at(id);
    for (size_t group = 0; group < windows_.size(); ++group) {
      for (size_t i = 0; (i + 1) * size_ <= r.tokens.size(); ++i) {
        const int32_t block = r.tables[group][i];
        if (block == 0 || is_cached(block)) continue;
        const Prefix prefix{first(r.tokens, (i + 1) * size_), r.salt};
        cached_.push_back({block, group, prefix, number_of(prefix)});
      }
    }
  }

  void free(int64_t id) {
    for (Table& table : requests_.at(id).tables) {
      std::erase(table, 0);
      release(table);
    }
    requests_.erase(id);
  }
  bool reset() {
    if (!requests_.empty()) return false;
    cached_.clear();
    return true;
  }

  const std::map<int64_t, Request>& requests() const { return requests_; }
  bool same_queue(const lesson07::BlockPool& pool) const {
    const auto real = pool.queue().all();
    return std::ranges::equal(real, queue_, {}, [](const auto* block) { return block->id; });
  }

 private:
  /// `number` stands for the prefix as long as a block of group 0 holds it: computed again after it
  /// was lost, it is another one.
  struct Cached {
    int32_t id;
    size_t group;
    Prefix prefix;
    int number;
  };
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  static Tokens first(const Tokens& tokens, size_t n) {
    return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
  }
  size_t blocks(size_t num_tokens) const { return (num_tokens + size_ - 1) / size_; }
  /// No query at position num_computed or later sees a token of the block.
  bool has_left(size_t group, size_t block, size_t num_computed) const {
    if (windows_[group] == 0) return false;
    const auto last = static_cast<int64_t>((block + 1) * size_) - 1;
    return last <= static_cast<int64_t>(num_computed) - windows_[group];
  }
  const Cached* find_block(size_t group, const Prefix& prefix) const {
    const auto full = std::ranges::find_if(
        cached_, [&](const Cached& c) { return c.group == 0 && c.prefix == prefix; });
    if (full == cached_.end()) return nullptr;
    const auto found = std::ranges::find_if(
        cached_, [&](const Cached& c) { return c.group == group && c.number == full->number; });
    return found == cached_.end() ? nullptr : &*found;
  }
  /// A group's entries for a prefix; empty: it cannot go on after it.
  Table hit(size_t group, const Prefix& prefix) const {
    Table table;
    for (size_t i = 0; i < prefix.tokens.size() / size_; ++i) {
      const bool seen = !has_left(group, i, prefix.tokens.size());
      const Cached* block =
          find_block(seen ? group : 0, {first(prefix.tokens, (i + 1) * size_), prefix.salt});
      if (block == nullptr) return {};
      table.push_back(seen ? block->id : 0);
    }
    return table;
  }
  int number_of(const Prefix& prefix) {
    for (const Cached& c : cached_) {
      if (c.group == 0 && c.prefix == prefix) return c.number;
    }
    return next_number_++;
  }
  void grow(Request& r, std::span<const int32_t> tokens) {
    r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
    for (Table& table : r.tables) {
      while (table.size() < blocks(r.tokens.size())) table.push_back(take());
    }
  }
  int32_t take() {
    const int32_t id = queue_.front();
    queue_.pop_front();
    refs_[at(id)] = 1;
    std::erase_if(cached_, [&](const Cached& block) { return block.id == id; });
    return id;
  }
  void release(const Table& ids) {
    Table to_front;
    for (const int32_t id : std::views::reverse(ids)) {
      if (--refs_[at(id)] > 0) continue;
      const bool first = order_ == lesson07::FreeOrder::kUnhashedFirst && !is_cached(id);
      (first ? to_front : back_).push_back(id);
    }
    queue_.insert(queue_.end(), back_.begin(), back_.end());
    back_.clear();
    queue_.insert(queue_.begin(), to_front.begin(), to_front.end());
  }
  bool is_cached(int32_t id) const { return std::ranges::count(cached_, id, &Cached::id) > 0; }

  size_t size_;
  std::vector<int> windows_;
  lesson07::FreeOrder order_;
  std::vector<int> refs_;       // [num_blocks + 1]
  std::vector<Cached> cached_;  // the oldest first
  std::deque<int32_t> queue_;
  Table back_;
  std::map<int64_t, Request> requests_;
  int next_number_ = 0;
};

}  // namespace lesson10
