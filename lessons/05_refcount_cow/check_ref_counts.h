#pragma once

// What is true of the reference counts of every pool, this lesson's and later ones'.

#include <fmt/format.h>

#include <stdexcept>

namespace lesson05 {

/// Throws std::logic_error unless each block's ref_cnt is the number of tables that hold it.
template <class Pool, class NumTables>
void check_ref_counts(const Pool& pool, const NumTables& num_tables) {
  for (const auto& [block, count] : num_tables) {
    if (pool.ref_cnt(block) == count) continue;
    throw std::logic_error(fmt::format("block {} has ref count {}, but {} tables hold it", block,
                                       pool.ref_cnt(block), count));
  }
  if (static_cast<int>(num_tables.size()) != pool.num_used()) {
    throw std::logic_error(fmt::format("{} blocks are held, the pool counts {} used",
                                       num_tables.size(), pool.num_used()));
  }
}

}  // namespace lesson05
