#include "block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lesson06 {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 1) {
    throw std::invalid_argument(fmt::format("BlockPool: {} blocks, wanted at least 1", num_blocks));
  }
  ref_cnt_.assign(static_cast<size_t>(num_blocks), 0);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 goes first
}

std::optional<int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  ref_cnt_[static_cast<size_t>(id)] = 1;
  return id;
}

void BlockPool::take(int32_t id) {
  if (ref_cnt(id) == 0) free_.erase(std::find(free_.begin(), free_.end(), id));
  ++ref_cnt_[static_cast<size_t>(id)];
}

int BlockPool::release(int32_t id) {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is released, but it is free", id));
  }
  const int left = --ref_cnt_[static_cast<size_t>(id)];
  if (left == 0) free_.push_back(id);
  return left;
}

int BlockPool::ref_cnt(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return ref_cnt_[static_cast<size_t>(id)];
}

}  // namespace lesson06
