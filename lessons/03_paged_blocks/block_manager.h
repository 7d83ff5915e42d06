#pragma once

// Many sequences, one pool: which sequence holds which blocks. Bookkeeping only; no K, no V, no
// device.

#include <cstdint>
#include <map>

#include "block_pool.h"
#include "block_table.h"

namespace lesson03 {

/// Every used block belongs to exactly one table. A sequence's number is never reused. Unknown
/// numbers throw std::out_of_range that names them; nothing has changed then.
class BlockManager {
 public:
  /// Throws std::invalid_argument unless both are at least 1.
  BlockManager(int num_blocks, int block_size);

  /// A new sequence without tokens, and so without blocks.
  int add_sequence();
  /// Gives the sequence slots for num_tokens more tokens. Returns false, and changes nothing, if
  /// the pool has too few free blocks.
  bool extend(int seq, int num_tokens);
  /// Gives all blocks of the sequence back, the last one first, and forgets the sequence.
  void free_sequence(int seq);

  const BlockTable& table(int seq) const;
  const BlockPool& pool() const { return pool_; }
  int block_size() const { return block_size_; }
  const std::map<int, BlockTable>& tables() const { return tables_; }  // ascending
  int64_t num_tokens() const;  // tokens with a slot, over all sequences

 private:
  int block_size_;
  BlockPool pool_;
  std::map<int, BlockTable> tables_;  // by sequence
  int next_seq_ = 0;
};

}  // namespace lesson03
