#pragma once

// Lesson 03's pool, with a count of the references to each block. Source: vLLM v0's block allocator
// with ref counts and copy-on-write (removed 2025-09-20); KVCacheBlock.ref_cnt in v0.22.1.

#include <cstdint>
#include <optional>
#include <vector>

namespace lesson05 {

/// ref_cnt(id) is the number of tables that hold the block; 0 means free. Always
/// num_free() + num_used() == num_blocks().
class BlockPool {
 public:
  /// Throws std::invalid_argument unless there is at least one block.
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return static_cast<int>(ref_cnt_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_used() const { return num_blocks() - num_free(); }
  int num_shared() const { return num_shared_; }  // blocks with two references or more
  int64_t num_references() const { return num_references_; }

  /// Takes a free block, with one reference. No value: none is free.
  std::optional<int32_t> allocate();
  /// One more holder. Throws std::logic_error for a free block.
  void add_ref(int32_t id);
  /// One holder less; the last one frees the block. Returns the references that are left. Throws
  /// std::logic_error for a free block.
  int release(int32_t id);
  int ref_cnt(int32_t id) const;
  // Each of these three throws std::out_of_range for an unknown id. An error names the id and
  // leaves the state as it was.

 private:
  void check_id(int32_t id) const;
  void check_used(int32_t id, const char* action) const;

  std::vector<int32_t> free_;  // a stack; its top is the back
  std::vector<int> ref_cnt_;   // [num_blocks]
  int num_shared_ = 0;
  int64_t num_references_ = 0;
};

}  // namespace lesson05
