#pragma once

// Lesson 08's server over groups of layers, of which some forget.

#include <memory>
#include <span>
#include <vector>

#include "kv_cache_coordinator.h"
#include "lessons/08_scheduler/engine.h"
#include "windowed_attention.h"

namespace lesson10 {

using lesson03::PagedKvCache;
using lesson03::PagedOptions;
using lesson08::Chunk;
using lesson08::ServeOptions;

/// Serves as lesson 08 does, with fewer bytes if layers have windows. options.num_blocks counts
/// blocks of a group.
class WindowsEngine : public lesson08::ServingEngine {
 public:
  WindowsEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  const std::vector<KvCacheGroup>& groups() const { return groups_; }
  /// Null before the first call.
  const KvCacheCoordinator* manager() const;

 private:
  std::unique_ptr<KvCacheManager> make_manager(BlockPool& pool,
                                               const CacheManagerOptions& options) override;
  std::unique_ptr<lesson08::ServingAttention> make_attention(PagedKvCache& cache) const override;
  kv::ModelConfig cache_config() const override;
  int64_t blocks_needed(std::span<const kv::Request> requests) const override;
  lesson03::BlockTables tables_of(std::span<const Chunk> chunks, int num_seqs) const override;

  std::vector<KvCacheGroup> groups_;
};

/// options.num_blocks are blocks of all layers, as in the other lessons: the pool gets as many
/// bytes.
std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson10
