#pragma once

// The page table of one sequence: which block holds which of its tokens; and the arrays that hand
// it to the kernels of a pass. Source: vLLM's BlockTable (v0.22.1: vllm/v1/worker/block_table.py).

#include <cstdint>
#include <span>
#include <vector>

#include "qwen3/pass.h"

namespace lesson03 {

/// Blocks that n tokens fill, the last one perhaps in part.
constexpr int blocks_for(int num_tokens, int block_size) {
  return num_tokens / block_size + (num_tokens % block_size != 0);
}

/// num_tokens() counts tokens that have a slot. They include those of the running pass, whose K and
/// V are written when the pass has ended.
class BlockTable {
 public:
  /// Throws std::invalid_argument unless block_size is at least 1.
  explicit BlockTable(int block_size);

  int block_size() const { return block_size_; }
  int num_tokens() const { return num_tokens_; }
  int num_blocks() const { return static_cast<int>(block_ids_.size()); }
  std::span<const int32_t> block_ids() const { return block_ids_; }

  /// The slot of a token's K and V: the id of its block, times block_size, plus its offset in the
  /// block. Throws std::out_of_range for a token that has no slot.
  int64_t slot(int token) const;

  /// Slots of the last block that are taken: 1 .. block_size, or 0 for an empty table.
  int last_block_fill() const;
  /// Number of new blocks that num_tokens more tokens need. Throws std::invalid_argument if
  /// num_tokens is negative, or if the new length does not fit in an int.
  int blocks_to_extend(int num_tokens) const;
  /// Adds num_tokens tokens. `new_blocks` are the blocks_to_extend() blocks that they need. Throws
  /// as that function does, and for any other number of blocks; nothing has changed then.
  void extend(int num_tokens, std::span<const int32_t> new_blocks);
  /// Reserves capacity for num_blocks blocks, up to which extend() allocates no memory.
  void reserve(int num_blocks) { block_ids_.reserve(static_cast<size_t>(num_blocks)); }
  /// Points logical block `index` at another block. Throws std::out_of_range if the table has no
  /// such block.
  void replace(int index, int32_t block_id) {
    block_ids_.at(static_cast<size_t>(index)) = block_id;
  }

 private:
  int block_size_;
  int num_tokens_ = 0;
  std::vector<int32_t> block_ids_;  // [ceil(num_tokens / block_size)]
};

/// The tables of a pass's sequences, in their order.
using BlockTables = std::vector<const BlockTable*>;

/// The slot of each row of a pass: [num_rows]. Throws std::out_of_range for a row that has none.
std::vector<int64_t> slot_mapping_of(const kv::PassRows& rows, const BlockTables& tables);

/// The blocks of each sequence's seq_len tokens, side by side, padded with -1 to `width` entries:
/// [num_seqs, width]. Throws std::invalid_argument if `width` is too small, or a table has too few
/// blocks.
std::vector<int32_t> pack_block_tables(const kv::PassRows& rows, const BlockTables& tables,
                                       int width);

}  // namespace lesson03
