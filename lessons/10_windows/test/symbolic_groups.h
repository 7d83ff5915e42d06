#pragma once

// A simple, slow model of groups of layers: it tries a hit at every length. For tests: it predicts
// which blocks each operation of the coordinator finds, takes and leaves.

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "lessons/07_lru_eviction/test/symbolic_blocks.h"

namespace lesson10 {

/// `number` stands for the prefix as long as a block of group 0 holds it. A prefix that is lost and
/// computed again gets another number.
struct CachedInGroup {
  int32_t id;
  size_t group;
  lesson07::SymbolicPrefix prefix;
  int number;
};

class SymbolicGroups : public lesson07::SymbolicBlocks<CachedInGroup> {
 public:
  using Table = Ids;  // 0 is a null block
  struct Request {
    std::vector<Table> tables;  // of each group
    Tokens tokens;              // with a slot
    int salt = 0;
  };

  /// windows[0] must be 0: group 0 keeps everything.
  SymbolicGroups(int num_blocks, int block_size, std::vector<int> windows,
                 lesson07::FreeOrder order)
      : SymbolicBlocks(num_blocks, block_size, order), windows_(std::move(windows)) {}

  /// Table entries of each group for the longest prefix that every group can go on after.
  std::vector<Table> find(const Tokens& tokens, int salt) const {
    for (size_t n = (tokens.size() - 1) / block_size_; n > 0; --n) {
      std::vector<Table> tables;
      for (size_t group = 0; group < windows_.size(); ++group) {
        Table table = hit(group, {first(tokens, n * block_size_), salt});
        if (!table.empty()) tables.push_back(std::move(table));
      }
      if (tables.size() == windows_.size()) return tables;
    }
    return std::vector<Table>(windows_.size());
  }

  /// Starts a request with the blocks found. most(group, num_tokens) is the number of blocks that
  /// it may hold at once in a group that forgets. Returns false if the pool has too few.
  bool start(int64_t id, const Tokens& tokens, int salt, size_t num_new, size_t must_fit,
             const auto& most) {
    const std::vector<Table> found = find(tokens, salt);
    const size_t computed = found[0].size() * block_size_;
    size_t wanted = 0;
    for (size_t group = 0; group < found.size(); ++group) {
      const size_t revived = std::ranges::count_if(
          found[group], [&](int32_t block) { return block != 0 && is_free(block); });
      const size_t all = std::max(blocks(num_new), blocks(must_fit)) + revived;
      const size_t at_once = group == 0 ? all : most(group, computed + must_fit);
      wanted += std::max(blocks(num_new) + revived, std::min(all, at_once));
    }
    if (wanted > queue_.size()) return false;
    for (const Table& table : found) {
      for (const int32_t block : table) {
        if (block != 0) share(block);
      }
    }
    requests_[id] = {found, first(tokens, computed), salt};
    grow(requests_[id], std::span(tokens).subspan(computed, num_new));
    return true;
  }

  /// Gives a request slots for more tokens, or returns false and changes nothing. The blocks that
  /// it forgets go back first.
  bool extend(int64_t id, std::span<const int32_t> tokens) {
    Request& r = requests_.at(id);
    std::vector<Table> fallen(windows_.size());
    size_t free = queue_.size();
    for (size_t group = 1; group < windows_.size(); ++group) {
      const Table& table = r.tables[group];
      for (size_t i = 0; i < table.size(); ++i) {
        if (table[i] == 0 || !has_left(group, i, r.tokens.size())) continue;
        fallen[group].push_back(table[i]);
        free += refs_[table[i]] == 1;
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

  /// Caches the full blocks of a request's first `num_tokens` tokens.
  void cache_blocks(int64_t id, size_t num_tokens) {
    const Request& r = requests_.at(id);
    for (size_t group = 0; group < windows_.size(); ++group) {
      for (size_t i = 0; (i + 1) * block_size_ <= num_tokens; ++i) {
        const int32_t block = r.tables[group][i];
        if (block == 0 || is_cached(block)) continue;
        const Prefix prefix{first(r.tokens, (i + 1) * block_size_), r.salt};
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

 private:
  /// Returns whether no query at position num_computed or later sees a token of the block.
  bool has_left(size_t group, size_t block, size_t num_computed) const {
    if (windows_[group] == 0) return false;
    const auto last = static_cast<int64_t>((block + 1) * block_size_) - 1;
    return last <= static_cast<int64_t>(num_computed) - windows_[group];
  }
  const CachedInGroup* find_block(size_t group, const Prefix& prefix) const {
    const auto full = std::ranges::find_if(
        cached_, [&](const CachedInGroup& c) { return c.group == 0 && c.prefix == prefix; });
    if (full == cached_.end()) return nullptr;
    const auto found = std::ranges::find_if(cached_, [&](const CachedInGroup& c) {
      return c.group == group && c.number == full->number;
    });
    return found == cached_.end() ? nullptr : &*found;
  }
  /// A group's entries for a prefix; empty if the group cannot go on after it.
  Table hit(size_t group, const Prefix& prefix) const {
    Table table;
    for (size_t i = 0; i < prefix.tokens.size() / block_size_; ++i) {
      const bool seen = !has_left(group, i, prefix.tokens.size());
      const CachedInGroup* block =
          find_block(seen ? group : 0, {first(prefix.tokens, (i + 1) * block_size_), prefix.salt});
      if (block == nullptr) return {};
      table.push_back(seen ? block->id : 0);
    }
    return table;
  }
  int number_of(const Prefix& prefix) {
    for (const CachedInGroup& c : cached_) {
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
  std::vector<int> windows_;
  std::map<int64_t, Request> requests_;
  int next_number_ = 0;
};

}  // namespace lesson10
