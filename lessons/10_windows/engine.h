#pragma once

// Lesson 08's server over groups of layers, some of which forget.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "group_slot_mapping.h"
#include "kv_cache_coordinator.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "lessons/08_scheduler/engine.h"

namespace lesson10 {

using kv::StepOutput;
using lesson03::PagedKvCache;
using lesson03::PagedOptions;
using lesson08::Chunk;
using lesson08::PassObserver;
using lesson08::ServeOptions;

/// Lesson 04's pass, one for each group: each layer reads and writes through the tables of its
/// group. Slots are computed as in lesson 08, before the first layer writes.
class WindowedAttention : public kv::Attention {
 public:
  /// Borrows the cache, which has layers_per_group() layers. Throws UserError for more than
  /// kMaxGroups groups.
  WindowedAttention(const kv::ModelConfig& config, PagedKvCache& cache,
                    std::span<const KvCacheGroup> groups);

  /// The tables of the next pass's sequences, [num_groups, num_seqs], group after group. They have
  /// slots for all of its rows.
  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  kv::KvSlots slots(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;

 private:
  void compute_slots(const kv::AttentionRows& rows, const kv::Stream& stream) const;

  std::vector<lesson04::PagedPass> passes_;  // [num_groups]
  std::vector<LayerPlace> places_;           // [num_layers]
  lesson03::BlockTables tables_;
  kv::DeviceBuffer slots_;  // int64 [num_groups, num_rows]
};

/// Serves as lesson 08's server does, with fewer bytes if layers have windows. options.num_blocks
/// counts blocks of a group.
class Server : public lesson08::ServerBase<lesson08::Scheduler> {
 public:
  /// Borrows the model. options.num_blocks is at least 1.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  StepOutput step(const PassObserver<Scheduler>& on_pass = {});

  const KvCacheCoordinator& manager() const { return manager_; }
  const PagedKvCache& cache() const { return cache_; }

 private:
  lesson03::BlockTables tables_of(std::span<const Chunk> chunks, int num_seqs) const;

  BlockPool pool_;
  KvCacheCoordinator manager_;   // borrows pool_
  PagedKvCache cache_;           // with the layers of one group
  WindowedAttention attention_;  // borrows cache_
};

/// A server for the ladder. With options.num_blocks 0 the pool is as large as the requests of a
/// call need.
class WindowsEngine : public kv::ServerEngine<Server> {
 public:
  WindowsEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});
};

/// options.num_blocks counts blocks of all layers, as in the other lessons: the pool gets the bytes
/// that these would take.
std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson10
