#pragma once

// The grid of a pool that is a cache, for the pages of this lesson and the next.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "viz/widgets.h"

namespace lesson07 {

/// All blocks but the null block; what is cached is filled. No owners yet.
inline viz::PoolView pool_view(const BlockPool& pool) {
  viz::PoolView view{.block_size = pool.block_size(), .sequences = {}, .blocks = {}};
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = pool.block(id).ref_cnt;
    if (pool.block(id).is_cached) block.filled = pool.block_size();
  }
  return view;
}

/// The blocks of a table belong to somebody, whose tokens fill them.
inline void add_owner(viz::PoolView& view, const lesson03::BlockTable& table, int hue) {
  const auto ids = table.block_ids();
  for (size_t i = 0; i < ids.size(); ++i) {
    viz::BlockView& block = view.blocks.at(static_cast<size_t>(ids[i] - 1));
    block.owners.push_back(hue);
    const int fill = i + 1 < ids.size() ? table.block_size() : table.last_block_fill();
    block.filled = std::max(block.filled, fill);
  }
}

inline std::string pool_heading(const BlockPool& pool) {
  return fmt::format("Pool: {} blocks of {}; grey: free, still cached", pool.num_blocks(),
                     pool.block_size());
}

}  // namespace lesson07
