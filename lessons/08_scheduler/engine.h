#pragma once

// A server: requests come and go at any time, and every pass mixes prompts and decodes.

#include <memory>
#include <span>
#include <utility>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "programs/serving.h"
#include "serving_attention.h"
#include "step.h"

namespace lesson08 {

using lesson03::PagedKvCache;
using lesson07::BlockPool;

/// Blocks of the pool that serves these requests: options.num_blocks, or if that is 0 the blocks
/// that they need in all.
int pool_size(std::span<const kv::Request> requests, const PagedOptions& options);

class Server {
 public:
  using Scheduler = lesson08::Scheduler;

  /// Borrows the model. options.num_blocks is at least 1. Throws UserError for a block size that is
  /// no power of two up to 256, and for wrong options.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  /// Throws UserError for a request that submit() refuses, whatever other requests there are.
  void check(int64_t id, const kv::Request& request) const;
  /// Puts a request into the waiting queue. Throws UserError if a request has this id already, and
  /// as check() does.
  void submit(int64_t id, const kv::Request& request, RequestOptions options = {});
  /// Ends a request, waiting or running, and frees its blocks. Returns false if there is no such
  /// request. Must not be called in the middle of a step.
  bool abort(int64_t id);
  /// One pass. If it throws, every request must be aborted before the next one.
  StepOutput step(const PassObserver<Scheduler>& on_pass = {});
  bool idle() const { return scheduler_.idle(); }

  /// Makes the next step preempt all running requests and empty the cache first.
  void reset_prefix_cache() { reset_wanted_ = true; }

  const Scheduler& scheduler() const { return scheduler_; }
  const KvCacheManager& manager() const { return manager_; }
  const BlockPool& pool() const { return pool_; }
  const PagedKvCache& cache() const { return cache_; }
  const TokenChooser& chooser() const { return chooser_; }

 private:
  kv::Model& model_;
  ServeOptions options_;
  int max_seq_len_;
  BlockPool pool_;
  PagedKvCache cache_;
  ServingAttention attention_;  // borrows cache_
  KvCacheManager manager_;      // borrows pool_
  Scheduler scheduler_;         // borrows manager_
  TokenChooser chooser_;
  TokenStreams streams_;          // of the scheduler's requests
  lesson03::BlockTable padding_;  // the null block
  bool reset_wanted_ = false;
};

/// A server for the ladder. With options.num_blocks 0 the pool is as large as the requests of a
/// call need.
class ServingEngine : public kv::ServerEngine<Server> {
 public:
  ServingEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson08
