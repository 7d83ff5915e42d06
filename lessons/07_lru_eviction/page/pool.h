#pragma once

// The blocks of a pool that is a cache, for the pages of this lesson and the next.

#include "lessons/07_lru_eviction/block_pool.h"
#include "viz/drawing/parts.h"

namespace lesson07 {

/// All blocks but the null block; cached blocks are filled. The caller adds owners and words.
inline viz::PoolView pool_view(const BlockPool& pool) {
  viz::PoolView view = viz::pool_view(pool.block_size(), 1, pool.num_blocks(),
                                      [&](int32_t id) { return pool.block(id).ref_cnt; });
  for (viz::BlockView& block : view.blocks) {
    if (!pool.block(block.id).is_cached) continue;
    block.filled = pool.block_size();
    if (block.ref_cnt == 0) block.state = viz::State::kCached;
  }
  return view;
}

}  // namespace lesson07
