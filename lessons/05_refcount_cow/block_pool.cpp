#include "block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lesson05 {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 1) {
    throw std::invalid_argument(fmt::format("BlockPool: {} blocks, wanted at least 1", num_blocks));
  }
  ref_cnt_.assign(static_cast<size_t>(num_blocks), 0);
  free_.reserve(ref_cnt_.size());  // so that release() cannot fail for want of memory
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);  // block 0 goes first
}

int BlockPool::num_shared() const {
  return static_cast<int>(std::ranges::count_if(ref_cnt_, [](int count) { return count > 1; }));
}

int64_t BlockPool::num_references() const {
  return std::accumulate(ref_cnt_.begin(), ref_cnt_.end(), int64_t{0});
}

std::optional<int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  ref_cnt_[static_cast<size_t>(id)] = 1;
  return id;
}

void BlockPool::add_ref(int32_t id) { ++used(id, "shared"); }

void BlockPool::release(int32_t id) {
  if (--used(id, "released") == 0) free_.push_back(id);
}

int BlockPool::ref_cnt(int32_t id) const {
  if (id < 0 || id >= num_blocks()) {
    throw std::out_of_range(
        fmt::format("BlockPool: there is no block {}, the pool has {}", id, num_blocks()));
  }
  return ref_cnt_[static_cast<size_t>(id)];
}

/// The count of a block that is not free.
int& BlockPool::used(int32_t id, const char* action) {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is {}, but it is free", id, action));
  }
  return ref_cnt_[static_cast<size_t>(id)];
}

}  // namespace lesson05
