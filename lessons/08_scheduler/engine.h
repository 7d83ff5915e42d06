#pragma once

// A server's loop: requests come at any time, and every pass mixes prompts and decodes.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/program/paged_options.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "program/served_requests.h"
#include "scheduler.h"

namespace lesson08 {

using lesson03::BlockTable;
using lesson03::PagedKvCache;
using lesson07::BlockPool;
using lesson07::FreeOrder;

struct ServeOptions {
  SchedulerOptions scheduler{};
  FreeOrder free_order = FreeOrder::kAppend;
  lesson06::BlockHasher hasher = {};
  bool caching = true;
  /// Not 0, and options.num_blocks is 0: the pool takes this share of the memory that is free
  /// when it is made, but at most as many blocks as can be numbered.
  double memory_utilization = 0;
  /// Greedy requests only: the device finds the largest logit, and logits never come to the host.
  /// A completion's digest is then that of no logits.
  bool choose_on_device = false;
  /// Pad decode-only passes to a multiple of this many rows, so a CUDA graph captured at that size
  /// can be replayed.
  int pad_decodes_to = 1;
};

/// Called before each pass. Returning false cancels every unfinished request.
struct PassView {
  int pass = 0;
  const Scheduler* scheduler = nullptr;
  std::span<const Chunk> chunks;
};
using PassCallback = std::function<bool(const PassView&)>;

/// Slots are worked out on the device, from the tables that are there anyway.
class ServingAttention : public lesson04::PagedCacheAttention {
 public:
  using PagedCacheAttention::PagedCacheAttention;

 private:
  void add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) override;

  kv::DeviceBuffer slots_;  // int64 [num_rows]
};

/// Serves more requests than fit. The pool and what it caches stay from one call to the next,
/// unless that one needs a larger pool.
class ServingEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256, and wrong options of the
  /// scheduler. options.num_blocks 0: as many as all requests together need, so that nobody waits,
  /// or the share of the memory that `serve` names.
  ServingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                const ServeOptions& serve = {});

  /// All requests come at once.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  /// Request i has the id i. `arrivals` is empty or has one for each request. Throws UserError,
  /// before anything is computed, for a request that can never fit: "request 7 needs 63 blocks, the
  /// pool has 49". Whatever is thrown, by a callback too, every block is free afterwards.
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {}, const PassCallback& on_pass = {});

  /// Null before the first call.
  const KvCacheManager* manager() const { return manager_ ? &*manager_ : nullptr; }

 private:
  int64_t blocks_wanted(std::span<const kv::Request> requests) const;
  void check(std::span<const kv::Request> requests) const;
  void make_cache(std::span<const kv::Request> requests);
  kv::PassRows rows_of(const Scheduler& scheduler, std::span<const Chunk> chunks);
  void compute(const kv::PassRows& rows, ServedRequests& served);
  std::vector<int32_t> choose_tokens(const kv::PassRows& rows);

  kv::Model* model_;
  lesson03::PagedOptions options_;
  ServeOptions serve_options_;
  std::optional<PagedKvCache> cache_;
  std::optional<ServingAttention> attention_;  // borrows cache_
  std::optional<BlockPool> pool_;
  std::optional<KvCacheManager> manager_;  // borrows pool_
  BlockTable padding_;       // of a row that nobody looks at: one token in the null block
  kv::DeviceBuffer chosen_;  // int32 [logit rows], with choose_on_device
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson08
