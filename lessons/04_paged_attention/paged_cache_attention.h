#pragma once

// The model's Attention over a paged cache: says in which slots this pass's K and V go, and attends
// through the block tables.

#include <cstdint>
#include <span>
#include <utility>

#include "common/device.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "paged_attention.h"
#include "qwen3/attention.h"
#include "qwen3/config.h"

namespace lesson04 {

using lesson03::BlockTables;
using lesson03::PagedKvCache;

/// What the kernels have to know of one pass over a paged cache: its sizes and its block tables.
/// Its owner, an Attention over blocks, has the slots of the new rows. Borrows the layers.
class PagedPass {
 public:
  /// Throws UserError for a block size that the attention kernels can't read.
  PagedPass(const kv::ModelConfig& config, std::span<const KvBlocks> layers);

  /// Begins a pass: packs the tables of its sequences. A pass with one row for each sequence may be
  /// replayed, because its grids depend only on the number of sequences and a bound of their
  /// lengths, and the kernels read tables, lengths and slots from device memory.
  void begin(const kv::PassRows& rows, const BlockTables& tables, kv::PassArrays& arrays);
  /// See kv::Attention. `slot_mapping` [num_rows] is on the device.
  kv::KvSlots slots(int layer, const int64_t* slot_mapping) const;
  /// Attends to what is in the layer's blocks, this pass's rows included.
  void attend(const kv::AttentionRows& rows, const kv::Stream& stream) const;
  /// The arguments of the attention kernel for these rows.
  PagedAttentionArgs args_of(const kv::AttentionRows& rows) const;

 private:
  int num_heads_;
  std::span<const KvBlocks> layers_;
  PagedAttentionArgs args_;  // of this pass, without what args_of() adds for a layer
};

/// An Attention that looks up the slots of new rows in the tables, on the host. Call set_tables()
/// before each forward() of the model.
class PagedCacheAttention : public kv::Attention {
 public:
  PagedCacheAttention(const kv::ModelConfig& config, const PagedKvCache& cache)
      : pass_(config, cache.layers()) {}

  /// The tables of the next pass's sequences, which have slots for all of its rows.
  void set_tables(BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    pass_.begin(rows, tables_, arrays);
    arrays.add(slot_mapping_of(rows, tables_), slot_mapping_);
  }
  kv::KvSlots slots(const kv::AttentionRows& rows, const kv::Stream&) override {
    return pass_.slots(rows.layer, slot_mapping_);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    pass_.attend(rows, stream);
  }

 private:
  PagedPass pass_;
  BlockTables tables_;
  const int64_t* slot_mapping_ = nullptr;  // [num_rows], on the device
};

}  // namespace lesson04
