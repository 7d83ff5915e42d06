#pragma once

// Attention over groups: each layer reads and writes through the tables of its group.

#include <span>
#include <utility>
#include <vector>

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
                    std::span<const KvCacheGroup> groups);

  /// The tables of the next pass's sequences, [num_groups, num_seqs], group after group. They have
  /// slots for all of its rows.
  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  bool makes_heads() const override { return passes_.front().makes_heads(); }

 private:
  void compute_slots(const kv::AttentionRows& rows, const kv::Stream& stream) const;

  std::vector<lesson04::PagedPass> passes_;  // [num_groups]
  std::vector<LayerPlace> places_;           // [num_layers]
  lesson03::BlockTables tables_;
  kv::DeviceBuffer slots_;  // int64 [num_groups, num_rows]
};

}  // namespace lesson10
