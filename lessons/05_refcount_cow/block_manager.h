#pragma once

// Many sequences that may share blocks. A fork copies the table, not the blocks. A write into a
// shared block copies it first.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "block_pool.h"
#include "lessons/03_paged_blocks/block_table.h"

namespace lesson05 {

using lesson03::blocks_for;
using lesson03::BlockTable;

/// `num_tokens` more tokens for sequence `seq`.
struct Growth {
  int seq = 0;
  int num_tokens = 0;
};
/// A copy of block `source`, K and V of all layers, to block `destination`.
struct BlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};
/// Moves the bytes. No destination is also a source. May throw.
using CopyBlocks = std::function<void(std::span<const BlockCopy>)>;

/// Every block's ref_cnt is the number of tables that hold it. A sequence's number is never reused.
/// Unknown numbers throw std::out_of_range that names them; nothing has changed then.
class BlockManager {
 public:
  /// `copy` may be empty where blocks hold nothing (bookkeeping alone). Throws
  /// std::invalid_argument unless both numbers are at least 1.
  BlockManager(int num_blocks, int block_size, CopyBlocks copy = {});

  int add_sequence();
  /// A new sequence with the same tokens in the same blocks. Takes no block and copies no byte.
  int fork(int seq);
  /// Gives the sequences slots for all of `growths`. Returns false, and changes nothing, if too few
  /// blocks are free. First copies every last block that is shared and has room, all in one call of
  /// CopyBlocks. If all holders of a block grow, the last one keeps it. Throws
  /// std::invalid_argument for a sequence that is named twice, and for a length that overflows an
  /// int.
  bool append(std::span<const Growth> growths);
  /// The number of free blocks that append(growths) takes, copies included.
  int64_t blocks_to_append(std::span<const Growth> growths) const;
  /// Drops the sequence's references, last block first, and forgets it.
  void free_sequence(int seq);

  const BlockTable& table(int seq) const;
  const std::map<int, BlockTable>& tables() const { return tables_; }  // ascending
  const BlockPool& pool() const { return pool_; }
  int block_size() const { return block_size_; }
  int64_t num_copies() const { return num_copies_; }  // blocks copied on write so far

  /// Throws std::logic_error unless every ref_cnt is the number of tables that hold the block.
  void check() const;

 private:
  struct Plan;
  Plan plan(std::span<const Growth> growths) const;
  std::vector<int> must_copy(std::span<const Growth> growths) const;
  void copy_on_write(std::span<const int> seqs);

  int block_size_;
  BlockPool pool_;
  CopyBlocks copy_;
  std::map<int, BlockTable> tables_;  // by sequence
  int next_seq_ = 0;
  int64_t num_copies_ = 0;
};

}  // namespace lesson05
