// What is counted for the tables and pages: blocks, and how many it would take without sharing.

#include <algorithm>
#include <numeric>

#include "lessons/05_refcount_cow/engine.h"

namespace lesson05 {

int BlockPool::num_shared() const {
  return static_cast<int>(std::ranges::count_if(ref_cnt_, [](int count) { return count > 1; }));
}

int64_t BlockPool::num_references() const {
  return std::accumulate(ref_cnt_.begin(), ref_cnt_.end(), int64_t{0});
}

void SharingEngine::note_blocks(kv::EngineCounters& counters) const {
  const BlockPool& pool = manager_->pool();
  counters.note_peak("blocks_in_use", pool.num_used());
  counters.note_peak("blocks_shared", pool.num_shared());
  counters.note_peak("blocks_as_copies", pool.num_references());
  counters.kv_bytes_copied = manager_->num_copies() * cache_->bytes_per_block();

  // After an append a shared block is full: each empty slot is in a block of one sequence alone.
  // After a fork this counts too few slots, but a fork takes no block, so it makes no new peak.
  int64_t num_slots = int64_t{pool.num_used()} * options_.block_size;
  for (const auto& [seq, table] : manager_->tables()) {
    num_slots -= options_.block_size - table.last_block_fill();
  }
  kv::note_kv_bytes(counters, pool.num_used() * cache_->bytes_per_block(),
                    num_slots * cache_->bytes_per_token());
}

}  // namespace lesson05
