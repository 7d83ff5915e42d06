#pragma once

// Pools whose blocks keep their content when they are freed: a free block that is found comes back
// into use as it is.

#include <cstdint>
#include <span>
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
  /// Throws std::logic_error if the pool contradicts itself.
  virtual void check() const = 0;

 protected:
  /// Checks what is true of every pool: its index, and that the blocks it would give out, `free`,
  /// are just those without a reference, each once.
  void check_free(std::span<const int32_t> free) const;
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
  void check() const override { check_free(free_); }

 private:
  int& refs(int32_t id) { return ref_cnt_[id]; }

  PrefixIndex index_;
  std::vector<int> ref_cnt_;   // [num_blocks]
  std::vector<int32_t> free_;  // a stack; its top is the back
};

}  // namespace lesson06
