#pragma once

// The model's Attention on top of a paged cache. It writes this pass's K and V into their slots,
// then reads all of them through the block tables.

#include <cstdint>
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

/// One pass over a paged cache, as the kernels see it: its sizes and its block tables. An attention
/// over blocks owns one, and hands it the slots of the new rows. Borrows the cache.
class PagedPass {
 public:
  /// Throws UserError if the attention kernels do not serve the cache's block size.
  PagedPass(const kv::ModelConfig& config, PagedKvCache& cache);

  /// Begins a pass: packs the tables of its sequences. A pass with one row for each sequence may be
  /// replayed. Its grids depend only on the number of sequences and a bound of their lengths. The
  /// kernels read tables, lengths and slots from device memory.
  void begin(const kv::PassRows& rows, const BlockTables& tables, kv::PassArrays& arrays);
  /// See kv::Attention.
  bool makes_heads() const;
  /// Writes the rows' K and V into the layer's cache, then attends. `slot_mapping` [num_rows], on
  /// the device, is read only if `rows.heads` is null.
  void forward(const kv::AttentionRows& rows, const int64_t* slot_mapping,
               const kv::Stream& stream) const;
  /// The arguments of the attention kernel for these rows.
  PagedAttentionArgs args_of(const kv::AttentionRows& rows) const;

 private:
  /// Writes this pass's K and V into the layer.
  static void write(const kv::AttentionRows& rows, const PagedAttentionArgs& args,
                    const int64_t* slot_mapping, const kv::Stream& stream);

  int num_heads_;
  PagedKvCache* cache_;
  PagedAttentionArgs args_;  // of this pass, without what args_of() adds for a layer
};

/// Attention that looks up the slots in the tables on the host. Call set_tables() before the
/// model's forward().
class PagedCacheAttention : public kv::Attention {
 public:
  PagedCacheAttention(const kv::ModelConfig& config, PagedKvCache& cache) : pass_(config, cache) {}

  /// The tables of the next pass's sequences, which have slots for all of its rows.
  void set_tables(BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    pass_.begin(rows, tables_, arrays);
    arrays.add(slot_mapping_of(rows, tables_), slot_mapping_);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    pass_.forward(rows, slot_mapping_, stream);
  }
  bool makes_heads() const override { return pass_.makes_heads(); }

 private:
  PagedPass pass_;
  BlockTables tables_;
  const int64_t* slot_mapping_ = nullptr;  // [num_rows], on the device
};

}  // namespace lesson04
