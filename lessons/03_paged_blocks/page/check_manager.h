#pragma once

// Checks that a manager's tables and its pool agree: for the page and the tests.

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "lessons/03_paged_blocks/block_manager.h"

namespace lesson03 {

/// Throws std::logic_error unless every table has just the blocks its tokens need, every used block
/// is in one table, and every free block in none.
inline void check(const BlockManager& manager) {
  const BlockPool& pool = manager.pool();
  std::vector<int> num_tables(pool.num_blocks(), 0);
  for (const auto& [seq, table] : manager.tables()) {
    if (table.num_blocks() != blocks_for(table.num_tokens(), manager.block_size())) {
      throw std::logic_error(fmt::format("sequence {} has {} blocks for {} tokens", seq,
                                         table.num_blocks(), table.num_tokens()));
    }
    for (const int32_t id : table.block_ids()) ++num_tables.at(id);
  }
  for (int32_t id = 0; id < pool.num_blocks(); ++id) {
    const int found = num_tables[id];
    if (found != (pool.is_used(id) ? 1 : 0)) {
      throw std::logic_error(fmt::format("block {} is {}, but in {} tables", id,
                                         pool.is_used(id) ? "used" : "free", found));
    }
  }
}

}  // namespace lesson03
