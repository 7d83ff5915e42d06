#pragma once

// The page table of one sequence: which block holds which of its tokens; and the arrays that hand
// it to the kernels of a pass. Source: vLLM's BlockTable (v0.22.1: vllm/v1/worker/block_table.py).

#include <cstdint>
#include <span>
#include <vector>

#include "qwen3/pass.h"

namespace lesson03 {

/// The number of blocks that hold num_tokens tokens; the last block may be partly filled.
constexpr int blocks_for(int num_tokens, int block_size) {
  return num_tokens / block_size + (num_tokens % block_size != 0);
}

/// num_tokens() counts the tokens that have a slot. Tokens of the running pass have one already;
/// their K and V are complete once the pass has ended.
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

  /// The number of slots in use in the last block: 1 .. block_size, or 0 for an empty table.
  int last_block_fill() const;
  /// The number of new blocks that num_tokens more tokens need. Throws std::invalid_argument if
  /// num_tokens is negative, or if the new length does not fit in an int.
  int blocks_to_extend(int num_tokens) const;
  /// Adds num_tokens tokens, and returns the entries of the blocks_to_extend() blocks that they
  /// need for the caller to fill; valid until the next call. Throws as that function does, and if
  /// there is no memory; nothing has changed then.
  std::span<int32_t> extend(int num_tokens);
  /// Points logical block `index` at another block. Throws std::out_of_range if the table has no
  /// such block.
  void replace(int index, int32_t block_id) { block_ids_.at(index) = block_id; }

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
