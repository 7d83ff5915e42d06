#include "block_pool.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson03 {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 1) {
    throw std::invalid_argument(fmt::format("BlockPool: {} blocks, wanted at least 1", num_blocks));
  }
  used_.assign(num_blocks, false);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 is taken first
}

std::optional<int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  used_[id] = true;
  return id;
}

void BlockPool::free(int32_t id) {
  if (!is_used(id)) {
    throw std::logic_error(fmt::format("BlockPool: block {} is freed, but it is free already", id));
  }
  used_[id] = false;
  free_.push_back(id);
}

bool BlockPool::is_used(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return used_[id];
}

}  // namespace lesson03
