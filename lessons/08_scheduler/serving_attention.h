#pragma once

// Lesson 04's attention for a server. The device computes the slots of a pass from the block
// tables, which attention needs there anyway.

#include <span>
#include <utility>

#include "common/device.h"
#include "compute_slot_mapping.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "qwen3/attention.h"
#include "scheduler.h"

namespace lesson08 {

/// The block tables of a pass of num_seqs sequences: those of the chunks, and `padding` for the
/// sequences after them.
template <class Manager>
lesson03::BlockTables tables_of(const Manager& manager, std::span<const Chunk> chunks, int num_seqs,
                                const lesson03::BlockTable& padding) {
  lesson03::BlockTables tables;
  for (const Chunk& chunk : chunks) tables.push_back(&manager.table(chunk.id));
  tables.resize(num_seqs, &padding);
  return tables;
}

/// The arguments that compute the slots of a pass, into slots [num_rows].
inline ComputeSlotMappingArgs slots_of(const lesson04::PagedAttentionArgs& pass, int64_t* slots) {
  return {.first_row = pass.first_row,
          .seq_len = pass.seq_len,
          .block_tables = pass.block_tables,
          .num_seqs = pass.num_seqs,
          .num_rows = pass.num_rows,
          .max_blocks_per_seq = pass.max_blocks_per_seq,
          .block_size = pass.cache.block_size,
          .slot_mapping = slots};
}

/// Computes the slots of a pass once, before its first layer writes.
class ServingAttention : public kv::Attention {
 public:
  ServingAttention(const kv::ModelConfig& config, const lesson03::PagedKvCache& cache)
      : pass_(config, cache.layers()) {}

  /// The tables of the next pass's sequences, which have slots for all of its rows.
  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    pass_.begin(rows, tables_, arrays);
    arrays.make_room(slots_, rows.token_ids.size() * sizeof(int64_t));
  }
  kv::KvSlots slots(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    auto* const slots = slots_.as<int64_t>();
    if (rows.layer == 0) compute_slot_mapping(slots_of(pass_.args_of(rows), slots), stream);
    return pass_.slots(rows.layer, slots);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    pass_.attend(rows, stream);
  }

 private:
  lesson04::PagedPass pass_;
  lesson03::BlockTables tables_;
  kv::DeviceBuffer slots_;  // int64 [num_rows]
};

}  // namespace lesson08
