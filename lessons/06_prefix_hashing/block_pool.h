#pragma once

// Pools whose blocks keep their content when they are freed: a free block that is found comes back
// into use as it is.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "prefix_index.h"

namespace lesson06 {

/// The interface of a pool that KvCacheManager uses. This lesson's keeps its free blocks in a
/// stack, lesson 07's in a queue. Always num_free() + num_used() == num_blocks(). A block is free
/// if and only if its ref_cnt is 0. An error names the block and leaves the state as it was:
/// std::out_of_range for an unknown one, std::logic_error for a broken rule.
class CachePool {
 public:
  virtual ~CachePool() = default;
  virtual int num_blocks() const = 0;
  virtual int num_free() const = 0;
  virtual int ref_cnt(int32_t id) const = 0;     // the number of tables that hold the block
  virtual const PrefixIndex& index() const = 0;  // what can be found, in used and free blocks
  int num_used() const { return num_blocks() - num_free(); }
  int block_size() const { return index().block_size(); }

  /// Takes ids.size() blocks for new content, each with one reference. Their old content cannot be
  /// found any more. Returns false, and changes nothing, if fewer blocks are free.
  virtual bool get_new_blocks(std::span<int32_t> ids) = 0;
  /// Adds a reference to each block. A free block comes back into use with its content.
  virtual void touch(std::span<const int32_t> ids) = 0;
  /// Drops one reference to each block of a table, named from its head to its tail. Of the blocks
  /// that become free, the tail is taken before the head: a tail is useless without its head.
  virtual void free_blocks(std::span<const int32_t> ids) = 0;
  /// Makes a block findable and returns the id of its prefix. The block is in use and full, and its
  /// K and V are written.
  virtual PrefixId cache_full_block(int32_t id, const BlockKey& key) = 0;
  /// Forgets all content. Returns false, and changes nothing, if a block is in use.
  virtual bool reset_prefix_cache() = 0;
  /// Throws std::logic_error unless the rules above the class hold.
  virtual void check() const = 0;
};

/// The block that was freed last is taken first. Allocates nothing after it is made.
class BlockPool final : public CachePool {
 public:
  /// Throws std::invalid_argument unless both numbers are at least 1.
  BlockPool(int num_blocks, int block_size, PrefixIndex::Check check = PrefixIndex::Check::kExact);

  int num_blocks() const override { return index_.num_ids(); }
  int num_free() const override { return static_cast<int>(free_.size()); }
  int ref_cnt(int32_t id) const override;
  const PrefixIndex& index() const override { return index_; }

  bool get_new_blocks(std::span<int32_t> ids) override;
  /// Searches the stack for each free block (lesson 07 needs no search).
  void touch(std::span<const int32_t> ids) override;
  /// Compares each id with those before it (lesson 07 marks them).
  void free_blocks(std::span<const int32_t> ids) override;
  PrefixId cache_full_block(int32_t id, const BlockKey& key) override;
  bool reset_prefix_cache() override;
  void check() const override;

 private:
  int& refs(int32_t id) { return ref_cnt_[static_cast<size_t>(id)]; }

  PrefixIndex index_;
  std::vector<int> ref_cnt_;   // [num_blocks]
  std::vector<int32_t> free_;  // a stack; its top is the back
};

inline BlockPool::BlockPool(int num_blocks, int block_size, PrefixIndex::Check check)
    : index_(num_blocks, block_size, check), ref_cnt_(static_cast<size_t>(num_blocks)) {
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 is taken first
}

inline int BlockPool::ref_cnt(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return ref_cnt_[static_cast<size_t>(id)];
}

inline bool BlockPool::get_new_blocks(std::span<int32_t> ids) {
  if (ids.size() > free_.size()) return false;
  for (int32_t& id : ids) {
    id = free_.back();
    free_.pop_back();
    index_.erase(id);
    refs(id) = 1;
  }
  return true;
}

inline void BlockPool::touch(std::span<const int32_t> ids) {
  for (const int32_t id : ids) ref_cnt(id);  // throws for an unknown one
  for (const int32_t id : ids) {
    if (refs(id)++ == 0) std::erase(free_, id);
  }
}

inline void BlockPool::free_blocks(std::span<const int32_t> ids) {
  for (auto id = ids.begin(); id != ids.end(); ++id) {
    const bool twice = std::find(ids.begin(), id, *id) != id;
    if (ref_cnt(*id) > 0 && !twice) continue;
    throw std::logic_error(fmt::format("BlockPool: block {} is freed, but it is {}", *id,
                                       twice ? "named twice" : "free"));
  }
  // The tail is pushed last, so it is on top.
  for (const int32_t id : ids) {
    if (--refs(id) == 0) free_.push_back(id);
  }
}

inline PrefixId BlockPool::cache_full_block(int32_t id, const BlockKey& key) {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is cached, but it is free", id));
  }
  return index_.insert(id, key);
}

inline bool BlockPool::reset_prefix_cache() {
  if (num_used() > 0) return false;
  for (int32_t id = 0; id < num_blocks(); ++id) index_.erase(id);
  return true;
}

inline void BlockPool::check() const {
  index_.check();
  const auto unused = std::ranges::count(ref_cnt_, 0);
  const bool all_free = std::ranges::all_of(free_, [&](int32_t id) { return ref_cnt(id) == 0; });
  if (unused != num_free() || !all_free) {
    throw std::logic_error(
        fmt::format("{} blocks have no reference, {} are free", unused, num_free()));
  }
}

}  // namespace lesson06
