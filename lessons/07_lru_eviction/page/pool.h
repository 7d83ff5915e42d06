#pragma once

// The blocks of a pool that is a cache, for the pages of this lesson and the next.

#include <fmt/format.h>

#include <string>

#include "lessons/07_lru_eviction/block_pool.h"
#include "viz/drawing/parts.h"
#include "viz/names.h"

namespace lesson07 {

/// All blocks but the null block; what is cached is filled. No owners yet, and no words.
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

inline std::string pool_heading(const BlockPool& pool) {
  return fmt::format("Pool: {} of {}; grey: free, still cached",
                     kv::count_of(pool.num_blocks(), "block"), pool.block_size());
}

}  // namespace lesson07
