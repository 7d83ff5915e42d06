#pragma once

// Attention over groups: each layer reads and writes through the table of its group.

#include <span>
#include <vector>

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

  int num_groups_;
  int num_seqs_ = 0;                // of the pass
  std::vector<LayerPlace> places_;  // [num_layers]
  // On the device:
  const int32_t* group_tables_ = nullptr;  // [num_groups, num_seqs, max_blocks_per_seq]
  kv::DeviceBuffer group_slots_;           // int64 [num_groups, num_rows]
};

}  // namespace lesson10
