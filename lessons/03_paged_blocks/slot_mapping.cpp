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
  std::vector<int32_t> tables;
  pack_block_tables(sequences, max_blocks, tables);
  return tables;
}

void pack_block_tables(std::span<const PagedRows> sequences, int max_blocks,
                       std::vector<int32_t>& out) {
  for (const PagedRows& rows : sequences) {
    const std::span<const int32_t> ids = rows.table->block_ids();
    const auto width = static_cast<size_t>(max_blocks);
    if (ids.size() > width) {
      throw std::invalid_argument(fmt::format(
          "pack_block_tables: a table has {} blocks, room is for {}", ids.size(), max_blocks));
    }
    out.insert(out.end(), ids.begin(), ids.end());
    out.insert(out.end(), width - ids.size(), -1);
  }
}

}  // namespace lesson03
