#pragma once

// Lesson 05's pool for blocks that keep their content when they are freed: a free block may be
// taken back as it is.

#include <cstdint>
#include <optional>
#include <vector>

namespace lesson06 {

/// ref_cnt(id) is the number of tables that hold the block; 0 means free. Always
/// num_free() + num_used() == num_blocks(). An error names the id and leaves the state as it was:
/// std::out_of_range for an unknown id, std::logic_error for a free block that is released.
class BlockPool {
 public:
  /// Throws std::invalid_argument unless there is at least one block.
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return static_cast<int>(ref_cnt_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_used() const { return num_blocks() - num_free(); }

  /// Takes the block that was freed last, with one reference, to write something new into it. No
  /// value: none is free.
  std::optional<int32_t> allocate();
  /// One more holder of what the block holds. A free block comes back into use, from the middle of
  /// the stack: it takes a search (lesson 07 does without).
  void take(int32_t id);
  /// One holder less; the last one frees the block. Returns the references that are left.
  int release(int32_t id);
  int ref_cnt(int32_t id) const;

 private:
  std::vector<int32_t> free_;  // a stack; its top is the back
  std::vector<int> ref_cnt_;   // [num_blocks]
};

}  // namespace lesson06
