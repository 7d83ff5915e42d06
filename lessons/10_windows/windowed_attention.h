#pragma once

// Attention over groups: each layer reads and writes through the tables of its group.

#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "group_slot_mapping.h"
#include "kv_cache_groups.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"

namespace lesson10 {

/// Lesson 04's pass, one for each group. Slots are computed as in lesson 08: in a pass that reads
/// them, before its first layer writes.
class WindowedAttention : public kv::Attention {
 public:
  /// Borrows the cache, which has layers_per_group() layers. Throws UserError for more than
  /// kMaxGroups groups.
  WindowedAttention(const kv::ModelConfig& config, lesson03::PagedKvCache& cache,
                    std::span<const KvCacheGroup> groups)
      : places_(places_of(groups)) {
    if (groups.size() > kMaxGroups) {
      kv::user_error("the model's layers are in {} groups, wanted at most {}", groups.size(),
                     kMaxGroups);
    }
    for (size_t group = 0; group < groups.size(); ++group) passes_.emplace_back(config, cache);
  }

  /// The tables of the next pass's sequences, [num_groups, num_seqs], group after group. They have
  /// slots for all of its rows.
  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    auto first = tables_.begin();
    for (lesson04::PagedPass& pass : passes_) {
      pass.begin(rows, {first, first + rows.num_seqs()}, arrays);
      first += rows.num_seqs();
    }
    arrays.make_room(slots_, passes_.size() * rows.token_ids.size() * sizeof(int64_t));
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    if (rows.layer == 0 && rows.heads == nullptr) compute_slots(rows, stream);
    const LayerPlace place = places_.at(static_cast<size_t>(rows.layer));
    kv::AttentionRows in_cache = rows;
    in_cache.layer = place.index;
    const int64_t* const slots = slots_.as<int64_t>() + int64_t{place.group} * rows.num_rows;
    passes_[static_cast<size_t>(place.group)].forward(in_cache, slots, stream);
  }
  bool makes_heads() const override { return passes_.front().makes_heads(); }

 private:
  void compute_slots(const kv::AttentionRows& rows, const kv::Stream& stream) const {
    GroupSlotMappingArgs args{.num_groups = static_cast<int>(passes_.size())};
    for (size_t group = 0; group < passes_.size(); ++group) {
      const lesson04::PagedAttentionArgs pass = passes_[group].args_of(rows);
      args.block_tables[group] = pass.block_tables;
      args.rows = {.first_row = pass.first_row,
                   .seq_len = pass.seq_len,
                   .num_seqs = pass.num_seqs,
                   .num_rows = pass.num_rows,
                   .max_blocks_per_seq = pass.max_blocks_per_seq,
                   .block_size = pass.cache.block_size,
                   .slot_mapping = slots_.as<int64_t>()};
    }
    group_slot_mapping(args, stream);
  }

  std::vector<lesson04::PagedPass> passes_;  // [num_groups]
  std::vector<LayerPlace> places_;           // [num_layers]
  lesson03::BlockTables tables_;
  kv::DeviceBuffer slots_;  // int64 [num_groups, num_rows]
};

}  // namespace lesson10
