// What must hold at every moment, spelled out: for tests, and for the page, which checks it after
// each command.

#include <fmt/format.h>

#include <stdexcept>

#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson07 {

void BlockPool::check() const {
  index_.check();
  size_t free = 0;
  for (const KvBlock& block : blocks_) {
    const bool in_queue = FreeBlockQueue::contains(block);
    if (in_queue != (block.ref_cnt == 0) || block.ref_cnt < 0) {
      throw std::logic_error(fmt::format("block {} has ref count {} and is {}in the queue",
                                         block.id, block.ref_cnt, in_queue ? "" : "not "));
    }
    free += in_queue;
    if (block.is_cached != (index_.block(block.id) != nullptr)) {
      throw std::logic_error(fmt::format("block {} is {}cached, and the index says otherwise",
                                         block.id, block.is_cached ? "" : "not "));
    }
  }
  if (free != queue_.size() || queue_.all().size() != free) {
    throw std::logic_error(
        fmt::format("{} blocks are free, the queue counts {}", free, queue_.size()));
  }
  if (blocks_[kNullBlock].ref_cnt != 1 || blocks_[kNullBlock].is_cached) {
    throw std::logic_error("the null block is given out or cached");
  }
}

}  // namespace lesson07
