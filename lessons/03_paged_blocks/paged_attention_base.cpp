#include "paged_attention_base.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson03 {

std::vector<int64_t> slot_mapping_of(const kv::PassRows& rows, const BlockTables& tables) {
  std::vector<int64_t> slots;
  for (size_t seq = 0; seq < tables.size(); ++seq) {
    for (int row = rows.first_row[seq]; row < rows.first_row[seq + 1]; ++row) {
      slots.push_back(tables[seq]->slot(rows.positions[static_cast<size_t>(row)]));
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
    const auto ids = tables[seq]->block_ids().first(static_cast<size_t>(blocks));
    packed.insert(packed.end(), ids.begin(), ids.end());
    packed.insert(packed.end(), static_cast<size_t>(width - blocks), -1);
  }
  return packed;
}

void PagedAttentionBase::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  max_blocks_per_seq_ = blocks_for(rows.max_seq_len(), cache_->block_size());
  add_tables(rows, arrays);
  add_slots(rows, arrays);
}

void PagedAttentionBase::add_tables(const kv::PassRows& rows, kv::PassArrays& arrays) {
  arrays.add(pack_block_tables(rows, tables_, max_blocks_per_seq_), block_tables_);
}

KvBlocks PagedAttentionBase::write(const kv::AttentionRows& rows, const kv::Stream& stream) const {
  const KvBlocks cache = cache_->layer(rows.layer);
  write_kv({.k = rows.k,
            .v = rows.v,
            .slot_mapping = slot_mapping_,
            .num_rows = rows.num_rows,
            .cache = cache},
           stream);
  return cache;
}

void PagedAttentionBase::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  arrays.add(slot_mapping_of(rows, tables_), slot_mapping_);
}

}  // namespace lesson03
