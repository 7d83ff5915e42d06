#pragma once

// What every Attention over blocks has in common: what a pass tells the kernels about sequences
// that live in blocks.

#include <cstdint>
#include <utility>
#include <vector>

#include "block_table.h"
#include "common/model/attention.h"
#include "common/model/config.h"
#include "paged_kv_cache.h"

namespace lesson03 {

/// The tables of a pass's sequences, in their order.
using BlockTables = std::vector<const BlockTable*>;

/// Slots of all rows of a pass: [num_rows]. Throws std::out_of_range for a row that has none.
std::vector<int64_t> slot_mapping_of(const kv::PassRows& rows, const BlockTables& tables);

/// The blocks of each sequence's seq_len tokens, side by side, padded with -1 to `width` entries:
/// [num_seqs, width]. Throws std::invalid_argument if that is too narrow, or a table has too few.
std::vector<int32_t> pack_block_tables(const kv::PassRows& rows, const BlockTables& tables,
                                       int width);

/// Borrows the cache. A pass is set_tables(), then the model's forward().
class PagedAttentionBase : public kv::Attention {
 public:
  PagedAttentionBase(const kv::ModelConfig& config, PagedKvCache& cache)
      : config_(config), cache_(&cache) {}

  /// The tables of the next pass's sequences. They have slots for all of its rows then.
  void set_tables(BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  /// Bytes of K and V that were moved, so far, for no reason but where they lay.
  virtual int64_t kv_bytes_copied() const { return 0; }

 protected:
  /// Writes the pass's K and V into their slots of the layer, and returns the layer.
  KvBlocks write(const kv::AttentionRows& rows, const kv::Stream& stream) const;
  // Lessons 08 and 10 do these in other ways.
  /// The tables of the pass: sets block_tables_.
  virtual void add_tables(const kv::PassRows& rows, kv::PassArrays& arrays);
  /// Says where the rows of the pass go: sets slot_mapping_.
  virtual void add_slots(const kv::PassRows& rows, kv::PassArrays& arrays);

  const kv::ModelConfig config_;
  PagedKvCache* cache_;
  BlockTables tables_;
  int max_blocks_per_seq_ = 0;  // the packed tables' width
  // On the device:
  const int32_t* block_tables_ = nullptr;  // [num_seqs, max_blocks_per_seq]
  const int64_t* slot_mapping_ = nullptr;  // [num_rows]
};

}  // namespace lesson03
