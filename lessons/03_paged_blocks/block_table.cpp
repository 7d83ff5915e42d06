#include "block_table.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace lesson03 {

BlockTable::BlockTable(int block_size) : block_size_(block_size) {
  if (block_size < 1) {
    throw std::invalid_argument(
        fmt::format("BlockTable: block size {}, wanted at least 1", block_size));
  }
}

int64_t BlockTable::slot(int token) const {
  if (token < 0 || token >= num_tokens_) {
    throw std::out_of_range(
        fmt::format("BlockTable: token {} has no slot, there are {} tokens", token, num_tokens_));
  }
  const int64_t block_id = block_ids_[token / block_size_];
  const int offset = token % block_size_;
  return block_id * block_size_ + offset;  // in 64 bits, like the element offsets it leads to
}

int BlockTable::last_block_fill() const {
  return num_tokens_ == 0 ? 0 : (num_tokens_ - 1) % block_size_ + 1;
}

int BlockTable::blocks_to_extend(int num_tokens) const {
  if (num_tokens < 0 || num_tokens > std::numeric_limits<int>::max() - num_tokens_) {
    throw std::invalid_argument(
        fmt::format("BlockTable: {} tokens more than {}, wanted 0 or more, and an int", num_tokens,
                    num_tokens_));
  }
  return blocks_for(num_tokens_ + num_tokens, block_size_) - num_blocks();
}

std::span<int32_t> BlockTable::extend(int num_tokens) {
  const int new_blocks = blocks_to_extend(num_tokens);
  block_ids_.resize(num_blocks() + new_blocks);
  num_tokens_ += num_tokens;
  return std::span(block_ids_).last(new_blocks);
}

std::vector<int64_t> slot_mapping_of(const kv::PassRows& rows, const BlockTables& tables) {
  std::vector<int64_t> slots;
  for (size_t seq = 0; seq < tables.size(); ++seq) {
    for (int row = rows.first_row[seq]; row < rows.first_row[seq + 1]; ++row) {
      slots.push_back(tables[seq]->slot(rows.positions[row]));
    }
  }
  return slots;
}

std::vector<int32_t> pack_block_tables(const kv::PassRows& rows, const BlockTables& tables,
                                       int width) {
  std::vector<int32_t> packed;
  for (size_t seq = 0; seq < tables.size(); ++seq) {
    const int blocks = blocks_for(rows.seq_len[seq], tables[seq]->block_size());
    if (blocks > width || blocks > tables[seq]->num_blocks()) {
      throw std::invalid_argument(fmt::format(
          "pack_block_tables: {} tokens need {} blocks, the table has {}, room is for {}",
          rows.seq_len[seq], blocks, tables[seq]->num_blocks(), width));
    }
    const auto ids = tables[seq]->block_ids().first(blocks);
    packed.insert(packed.end(), ids.begin(), ids.end());
    packed.insert(packed.end(), width - blocks, -1);
  }
  return packed;
}

}  // namespace lesson03
