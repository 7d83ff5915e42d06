#pragma once

// A server: requests come and go at any time, and every pass mixes prompts and decodes.

#include <memory>
#include <span>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "programs/serving.h"
#include "server_base.h"
#include "serving_attention.h"

namespace lesson08 {

using lesson03::PagedKvCache;
using lesson07::BlockPool;

class Server : public ServerBase<Scheduler> {
 public:
  /// Borrows the model. options.num_blocks is at least 1. Throws UserError for wrong options.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  /// One pass. If it throws, every request must be aborted before the next one.
  StepOutput step(const PassObserver<Scheduler>& on_pass = {});

  const KvCacheManager& manager() const { return manager_; }
  const BlockPool& pool() const { return pool_; }
  const PagedKvCache& cache() const { return cache_; }

 private:
  BlockPool pool_;
  PagedKvCache cache_;
  ServingAttention attention_;  // borrows cache_
  KvCacheManager manager_;      // borrows pool_
};

/// Blocks of the pool that serves these requests: options.num_blocks, or if that is 0 the blocks
/// that they need in all.
int pool_size(std::span<const kv::Request> requests, const PagedOptions& options);

/// An engine over a server, for programs that have all requests at the start. It makes the server
/// in the first call and keeps it as long as the pool, of at least pool_size() blocks, suffices.
template <class Server>
class EngineOf : public kv::ServerEngine<Server> {
 public:
  /// Borrows the model. `more` are the other arguments of the server's constructor.
  template <class... More>
  explicit EngineOf(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {},
                    const More&... more)
      : kv::ServerEngine<Server>(
            model, [=](auto requests) { return pool_size(requests, options); },
            [=, &model, sized = options](int num_blocks) mutable {
              sized.num_blocks = num_blocks;
              return std::make_unique<Server>(model, sized, serve, more...);
            },
            on_new_pool(serve.on_cache_event)) {
    checked(options, serve);
  }
};

using ServingEngine = EngineOf<Server>;

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson08
