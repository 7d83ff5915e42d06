#pragma once

// Attention over groups: each layer reads and writes through the table of its group.

#include <span>
#include <vector>

#include "group_slot_mapping.h"
#include "kv_cache_groups.h"
#include "lessons/08_scheduler/engine.h"

namespace lesson10 {

/// set_tables() gets [num_groups, num_seqs] of them, group after group.
class WindowedAttention : public lesson08::ServingAttention {
 public:
  /// Borrows the cache, which has layers_per_group() layers.
  WindowedAttention(const kv::ModelConfig& config, lesson03::PagedKvCache& cache,
                    std::span<const KvCacheGroup> groups);
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;

 private:
  void add_tables(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) override;

  GroupSlotMappingArgs groups_;     // of the pass
  std::vector<LayerPlace> places_;  // [num_layers]
};

}  // namespace lesson10
