#include "block_pool.h"

#include <fmt/format.h>

#include <stdexcept>

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
  check_used(id, "shared");
  if (++ref_cnt_[static_cast<size_t>(id)] == 2) ++num_shared_;
  ++num_references_;
}

int BlockPool::release(int32_t id) {
  check_used(id, "released");
  const int left = --ref_cnt_[static_cast<size_t>(id)];
  --num_references_;
  if (left == 1) --num_shared_;
  if (left == 0) free_.push_back(id);
  return left;
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
