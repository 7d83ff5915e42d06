#include "engine.h"

#include <algorithm>
#include <utility>

#include "common/model/generation.h"

namespace lesson10 {
namespace {

/// Most tokens of one request in a pass.
int most_at_once(const lesson08::SchedulerOptions& options) {
  const int budget = options.max_tokens_per_pass;
  return options.max_chunk > 0 ? std::min(options.max_chunk, budget) : budget;
}

}  // namespace

WindowsEngine::WindowsEngine(kv::Model& model, const PagedOptions& options,
                             const ServeOptions& serve)
    : ServingEngine(model, options, serve), groups_(make_groups(model.config())) {}

std::unique_ptr<KvCacheManager> WindowsEngine::make_manager(BlockPool& pool,
                                                            const CacheManagerOptions& options) {
  return std::make_unique<KvCacheCoordinator>(pool, groups_, options,
                                              most_at_once(scheduler_options()));
}

const KvCacheCoordinator* WindowsEngine::manager() const {
  return static_cast<const KvCacheCoordinator*>(ServingEngine::manager());
}

std::unique_ptr<lesson08::ServingAttention> WindowsEngine::make_attention(
    PagedKvCache& cache) const {
  return std::make_unique<WindowedAttention>(model().config(), cache, groups_);
}

kv::ModelConfig WindowsEngine::cache_config() const {
  kv::ModelConfig config = model().config();
  config.num_layers = layers_per_group(groups_);
  return config;
}

/// What one request after the other holds at most, as its manager would say.
int64_t WindowsEngine::blocks_needed(std::span<const kv::Request> requests) const {
  BlockPool none(1, options().block_size);
  const KvCacheCoordinator asked(none, groups_, {}, most_at_once(scheduler_options()));
  int64_t blocks = 0;
  for (const kv::Request& request : requests) {
    blocks += asked.most_blocks(kv::tokens_to_compute(request));
  }
  return blocks;
}

lesson03::BlockTables WindowsEngine::tables_of(std::span<const Chunk> chunks, int num_seqs) const {
  lesson03::BlockTables tables;
  for (int group = 0; group < manager()->num_groups(); ++group) {
    for (const Chunk& chunk : chunks) tables.push_back(&manager()->table(chunk.id, group));
    tables.resize(static_cast<size_t>((group + 1) * num_seqs), &padding());
  }
  return tables;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  PagedOptions of_groups = options;
  const int per_block = layers_per_group(make_groups(model.config()));
  of_groups.num_blocks =
      static_cast<int>(int64_t{options.num_blocks} * model.config().num_layers / per_block);
  return std::make_unique<WindowsEngine>(model, of_groups);
}

}  // namespace lesson10
