// Exercise of lesson 03: write what is missing here, then `./course exercise 3`.
// What each function promises stands in ../block_table.h. The lesson's version is
// ../block_table.cpp: try before you look.

#include "block_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "common/todo.h"

namespace lesson03 {

BlockTable::BlockTable(int block_size) : block_size_(block_size) {
  if (block_size < 1) {
    throw std::invalid_argument(
        fmt::format("BlockTable: block size {}, wanted at least 1", block_size));
  }
}

Place BlockTable::place(int token) const {
  // Logical block token / block_size, offset token % block_size. A token without a slot is
  // std::out_of_range.
  KV_TODO("BlockTable::place");
}

int64_t BlockTable::slot(int token) const {
  // block_id * block_size + offset, in 64 bits from the first operation on.
  KV_TODO("BlockTable::slot");
}

int BlockTable::last_block_fill() const {
  // 0 for an empty table, else 1 .. block_size. A full last block has block_size, not 0.
  KV_TODO("BlockTable::last_block_fill");
}

int BlockTable::blocks_to_extend(int num_tokens) const {
  // blocks_for() of the new length less the blocks that are there. A negative number of tokens, and
  // a length that no int can hold, are std::invalid_argument.
  KV_TODO("BlockTable::blocks_to_extend");
}

void BlockTable::extend(int num_tokens, std::span<const int32_t> new_blocks) {
  // Just as many new blocks as blocks_to_extend() says, else std::invalid_argument and no change.
  KV_TODO("BlockTable::extend");
}

void BlockTable::reserve(size_t num_blocks) {
  if (num_blocks <= block_ids_.capacity()) return;
  block_ids_.reserve(std::max(num_blocks, 2 * block_ids_.capacity()));
}

void BlockTable::replace(int index, int32_t block_id) {
  if (index < 0 || index >= num_blocks()) {
    throw std::out_of_range(fmt::format(
        "BlockTable: there is no logical block {}, the table has {}", index, num_blocks()));
  }
  block_ids_[static_cast<size_t>(index)] = block_id;
}

}  // namespace lesson03
