// Exercise of lesson 03: write what is missing here, then `./course exercise 3`.
// What each function promises stands in ../block_pool.h. The lesson's version is ../block_pool.cpp:
// try before you look.

#include "block_pool.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/todo.h"

namespace lesson03 {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 1) {
    throw std::invalid_argument(fmt::format("BlockPool: {} blocks, wanted at least 1", num_blocks));
  }
  used_.assign(static_cast<size_t>(num_blocks), false);
  free_.reserve(used_.size());
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 goes first
}

std::optional<int32_t> BlockPool::allocate() {
  // free_ is a stack, its top at the back. The block that was freed last comes first. Two things
  // change.
  KV_TODO("BlockPool::allocate");
}

bool BlockPool::allocate(int n, std::vector<int32_t>& ids) {
  // All or nothing. What may throw (a vector that grows) comes before the first block is taken.
  KV_TODO("BlockPool::allocate");
}

void BlockPool::free(int32_t id) {
  // Check before you change: freeing a free block is std::logic_error, and names it.
  KV_TODO("BlockPool::free");
}

bool BlockPool::is_used(int32_t id) const {
  check_id(id);
  return used_[static_cast<size_t>(id)];
}

void BlockPool::check_id(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
}

}  // namespace lesson03
