#include "block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lesson05 {

BlockPool::BlockPool(int num_blocks) : blocks_(num_blocks), ref_cnt_(num_blocks, 0) {}

int BlockPool::num_shared() const {
  return static_cast<int>(std::ranges::count_if(ref_cnt_, [](int count) { return count > 1; }));
}

int64_t BlockPool::num_references() const {
  return std::accumulate(ref_cnt_.begin(), ref_cnt_.end(), int64_t{0});
}

std::optional<int32_t> BlockPool::allocate() {
  const std::optional<int32_t> id = blocks_.allocate();
  if (id) ref_cnt_[*id] = 1;
  return id;
}

void BlockPool::add_ref(int32_t id) { ++used(id, "shared"); }

void BlockPool::release(int32_t id) {
  if (--used(id, "released") == 0) blocks_.free(id);
}

int BlockPool::ref_cnt(int32_t id) const { return blocks_.is_used(id) ? ref_cnt_[id] : 0; }

/// The reference count of a used block. Throws std::logic_error for a free one.
int& BlockPool::used(int32_t id, const char* action) {
  if (ref_cnt(id) == 0) {
    throw std::logic_error(fmt::format("BlockPool: block {} is {}, but it is free", id, action));
  }
  return ref_cnt_[id];
}

}  // namespace lesson05
