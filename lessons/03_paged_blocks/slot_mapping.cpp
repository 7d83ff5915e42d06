#include "slot_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lesson03 {

std::vector<int64_t> slot_mapping_of(std::span<const PagedRows> sequences) {
  std::vector<int64_t> slots;
  for (const PagedRows& rows : sequences) {
    const int end = rows.table->num_tokens();
    for (int token = end - rows.num_rows; token < end; ++token) {
      slots.push_back(rows.table->slot(token));
    }
  }
  return slots;
}

std::vector<int32_t> pack_block_tables(std::span<const PagedRows> sequences, int max_blocks) {
  std::vector<int32_t> tables(sequences.size() * static_cast<size_t>(max_blocks), -1);
  auto row = tables.begin();
  for (const PagedRows& rows : sequences) {
    const std::span<const int32_t> ids = rows.table->block_ids();
    if (ids.size() > static_cast<size_t>(max_blocks)) {
      throw std::invalid_argument(fmt::format(
          "pack_block_tables: a table has {} blocks, room is for {}", ids.size(), max_blocks));
    }
    std::copy(ids.begin(), ids.end(), row);
    row += max_blocks;
  }
  return tables;
}

}  // namespace lesson03
