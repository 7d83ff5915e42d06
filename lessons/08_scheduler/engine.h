#pragma once

// A server's loop: requests come at any time, and every pass mixes prompts and decodes.

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "compute_slot_mapping.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "program/served_requests.h"
#include "scheduler.h"

namespace lesson08 {

using lesson03::BlockTable;
using lesson03::PagedKvCache;
using lesson07::BlockPool;

/// Called before each pass. Returning false cancels every unfinished request.
using PassCallback = std::function<bool(const Scheduler&, const SchedulerOutput&)>;

/// Slots are worked out on the device, from the tables that are there anyway.
class ServingAttention : public lesson04::PagedCacheAttention {
 public:
  using PagedCacheAttention::PagedCacheAttention;

 protected:
  /// Of this pass: what its tables and slots_ are for.
  ComputeSlotMappingArgs slot_args(const kv::PassRows& rows, const kv::PassArrays& arrays) const;

  kv::DeviceBuffer slots_;  // int64 [num_rows]

 private:
  void add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) override;
};

/// Serves more requests than fit. The pool and what it caches stay from one call to the next,
/// unless that one needs a larger pool.
class ServingEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256, and wrong options of the
  /// scheduler. options.num_blocks 0: see pool_size().
  ServingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                const ServeOptions& serve = {});

  /// All requests come at once.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  /// Request i has the id i. `arrivals` is empty or has one for each request. Throws UserError,
  /// before anything is computed, for a request that can never run. Whatever is thrown, by a
  /// callback too, every block is free afterwards.
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {}, const PassCallback& on_pass = {});

  /// Before the next pass the cache is forgotten, and who runs is preempted. For callbacks, too.
  void reset_prefix_cache() { reset_wanted_ = true; }

  /// Null before the first call.
  const KvCacheManager* manager() const { return manager_.get(); }

 protected:
  // What a later lesson does in another way.
  virtual std::unique_ptr<KvCacheManager> make_manager(
      BlockPool& pool, const lesson06::CacheManagerOptions& options);
  virtual std::unique_ptr<Scheduler> make_scheduler(KvCacheManager& manager);
  virtual std::unique_ptr<ServingAttention> make_attention(PagedKvCache& cache) const;
  /// A model with as many layers as a block has rows of K and V for.
  virtual kv::ModelConfig cache_config() const { return model_->config(); }
  /// That all of the requests take together.
  virtual int64_t blocks_needed(std::span<const kv::Request> requests) const;
  /// What the attention gets: the tables of a pass's sequences. Padding comes after the chunks.
  virtual lesson03::BlockTables tables_of(std::span<const Chunk> chunks, int num_seqs) const;
  /// Adds the rows of a chunk. One that does not reach the end of what is known wants no logits.
  virtual void add_rows(const Scheduler& scheduler, const Chunk& chunk, kv::PassRows& rows) const;
  /// Before the pass, also one without chunks, and after it.
  virtual void before_pass(Scheduler&, const SchedulerOutput&) {}
  virtual void after_pass(Scheduler&, const SchedulerOutput&) {}
  /// With ServeOptions::choose_on_device: the device has chosen a token from each row of logits,
  /// int32 [rows.requests.size()]. What is queued here may change them: -1 is no token.
  virtual void on_chosen(const kv::PassRows&, int32_t* /*device_chosen*/) {}
  /// Everybody has been served.
  virtual void add_counters(const Scheduler&, kv::EngineCounters&) const {}

  const kv::Model& model() const { return *model_; }
  PagedKvCache& cache() { return *cache_; }
  const BlockTable& padding() const { return padding_; }  // of a row that nobody looks at
  const ServingAttention& attention() const { return *attention_; }
  const lesson03::PagedOptions& options() const { return options_; }
  const SchedulerOptions& scheduler_options() const { return serve_options_.scheduler; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  kv::PassRows rows_of(const Scheduler& scheduler, std::span<const Chunk> chunks);

  kv::Model* model_;
  lesson03::PagedOptions options_;
  ServeOptions serve_options_;
  std::optional<PagedKvCache> cache_;
  std::unique_ptr<ServingAttention> attention_;  // borrows cache_
  std::optional<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows pool_
  BlockTable padding_;                       // the null block
  bool reset_wanted_ = false;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson08
