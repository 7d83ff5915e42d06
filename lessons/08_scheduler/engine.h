#pragma once

// A server: requests come and go at any time, and every pass mixes prompts and decodes.

#include <memory>
#include <optional>

#include "serve.h"
#include "serving_attention.h"

namespace lesson08 {

using lesson03::BlockTable;
using lesson03::PagedKvCache;
using lesson03::PagedOptions;
using lesson07::BlockPool;

class Server {
 public:
  using Scheduler = lesson08::Scheduler;

  /// Borrows the model. options.num_blocks is at least 1. Throws UserError for a block size that is
  /// no power of two up to 256, and for wrong options.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  /// Throws UserError for a request that submit() refuses, whatever else there is.
  void check(int64_t id, const kv::Request& request) const;
  /// The request waits, and runs in one of the next steps. Throws UserError for an id that is
  /// there, and as check() does.
  void submit(int64_t id, const kv::Request& request, RequestOptions options = {});
  /// The request ends, waiting or running, and its blocks are free. Returns false if it is not
  /// there. Not in the middle of a step.
  bool abort(int64_t id);
  /// One pass. If it throws, every request must be aborted before the next one.
  StepOutput step(const PassObserver<Scheduler>& on_pass = {});
  bool idle() const { return scheduler_.idle(); }

  /// At the next step the cache is forgotten, and running requests are preempted.
  void reset_prefix_cache() { reset_wanted_ = true; }

  const Scheduler& scheduler() const { return scheduler_; }
  const KvCacheManager& manager() const { return manager_; }
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
  TokenStreams streams_;  // of the scheduler's requests
  BlockTable padding_;    // the null block
  bool reset_wanted_ = false;
};

/// A server for the ladder. options.num_blocks 0: see pool_size().
class ServingEngine : public EngineOf<Server> {
 public:
  ServingEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson08
