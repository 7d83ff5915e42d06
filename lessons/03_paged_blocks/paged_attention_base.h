#pragma once

// What every Attention over blocks has in common: the tables of a pass's sequences, and the slots
// of its rows.

#include <cstdint>
#include <vector>

#include "common/model/attention.h"
#include "common/model/config.h"
#include "paged_kv_cache.h"
#include "slot_mapping.h"

namespace lesson03 {

/// Borrows the cache. A pass is set_tables(), then the model's forward().
class PagedAttentionBase : public kv::Attention {
 public:
  /// Throws UserError if the attention kernels do not serve the model's head_dim.
  PagedAttentionBase(const kv::ModelConfig& config, const PagedKvCache& cache);

  /// The tables of the next pass's sequences, in their order. They have slots for all of its rows
  /// then.
  void set_tables(BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  /// Bytes of K and V that were moved, so far, for no reason but where they lay.
  virtual int64_t kv_bytes_copied() const { return 0; }

 protected:
  /// Where the rows of the pass go: sets slot_mapping_.
  virtual void add_slots(const kv::PassRows& rows, kv::PassArrays& arrays);

  const kv::ModelConfig config_;
  const PagedKvCache* cache_;
  BlockTables tables_;
  int max_seq_len_ = 0;         // a bound of the pass's sequences
  int max_blocks_per_seq_ = 0;  // the tables' width
  // On the device:
  const int32_t* block_tables_ = nullptr;  // [num_seqs, max_blocks_per_seq]
  const int64_t* slot_mapping_ = nullptr;  // [num_rows]
};

}  // namespace lesson03
