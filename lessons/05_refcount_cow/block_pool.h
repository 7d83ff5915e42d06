#pragma once

// Lesson 03's pool with a reference count for each block. Source: vLLM v0's block allocator
// with ref counts and copy-on-write (removed 2025-09-20); KVCacheBlock.ref_cnt in v0.22.1.

#include <cstdint>
#include <optional>
#include <vector>

#include "lessons/03_paged_blocks/block_pool.h"

namespace lesson05 {

/// ref_cnt(id) is the number of tables that hold the block; 0 means free.
class BlockPool {
 public:
  /// Throws std::invalid_argument unless there is at least one block.
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return blocks_.num_blocks(); }
  int num_free() const { return blocks_.num_free(); }
  int num_used() const { return blocks_.num_used(); }
  int num_shared() const;          // blocks with two references or more
  int64_t num_references() const;  // blocks that the tables would need without sharing

  /// Takes a free block, with one reference. std::nullopt if none is free.
  std::optional<int32_t> allocate();
  // All throw std::out_of_range for an unknown id, add_ref() and release() std::logic_error for a
  // free block.
  void add_ref(int32_t id);
  void release(int32_t id);  // the last reference frees the block
  int ref_cnt(int32_t id) const;

 private:
  int& used(int32_t id, const char* action);

  lesson03::BlockPool blocks_;
  std::vector<int> ref_cnt_;  // [num_blocks]
};

}  // namespace lesson05
