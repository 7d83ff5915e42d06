#pragma once

// The blocks of a pool, by id: a stack of the free ones. Source: vLLM's BlockPool without its cache
// (v0.22.1: vllm/v1/core/block_pool.py).

#include <cstdint>
#include <optional>
#include <vector>

namespace lesson03 {

/// Ids 0 .. num_blocks - 1, each free or used: num_free() + num_used() == num_blocks() always. The
/// pool only hands out ids; it does not know what the blocks hold.
class BlockPool {
 public:
  /// Throws std::invalid_argument unless there is at least one block.
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return static_cast<int>(used_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_used() const { return num_blocks() - num_free(); }

  /// Takes the block on top of the stack, the most recently freed. std::nullopt if none is free.
  std::optional<int32_t> allocate();
  /// Gives a block back. Throws std::out_of_range for an unknown id and std::logic_error for one
  /// that is free already, naming it; nothing has changed then.
  void free(int32_t id);
  bool is_used(int32_t id) const;  // throws std::out_of_range for an unknown id

 private:
  std::vector<int32_t> free_;  // the stack; its top is the back
  std::vector<bool> used_;     // [num_blocks]: catches a block that is freed twice
};

}  // namespace lesson03
