// Exercise of lesson 05: write what is missing here, then `./course exercise 5`.
// What each function promises stands in ../block_pool.h. The lesson's version is ../block_pool.cpp:
// try before you look.

#include "block_pool.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/todo.h"

namespace lesson05 {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 1) {
    throw std::invalid_argument(fmt::format("BlockPool: {} blocks, wanted at least 1", num_blocks));
  }
  ref_cnt_.assign(static_cast<size_t>(num_blocks), 0);
  free_.reserve(ref_cnt_.size());
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 goes first
}

std::optional<int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  ref_cnt_[static_cast<size_t>(id)] = 1;
  ++num_references_;
  return id;
}

void BlockPool::add_ref(int32_t id) {
  // One owner more of a used block. num_shared_ counts blocks with two owners or more,
  // num_references_ all references.
  KV_TODO("BlockPool::add_ref");
}

int BlockPool::release(int32_t id) {
  // One owner less; with the last one the block is free. Returns how many are left.
  KV_TODO("BlockPool::release");
}

int BlockPool::ref_cnt(int32_t id) const {
  check_id(id);
  return ref_cnt_[static_cast<size_t>(id)];
}

void BlockPool::check_id(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
}

void BlockPool::check_used(int32_t id, const char* action) const {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is {}, but it is free", id, action));
  }
}

}  // namespace lesson05
