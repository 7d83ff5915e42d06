#pragma once

// Lesson 06's generation over a pool that is a cache.

#include <memory>
#include <span>
#include <vector>

#include "block_pool.h"
#include "lessons/06_prefix_hashing/engine.h"

namespace lesson07 {

using lesson03::PagedOptions;

class CachingEngine : public kv::Engine {
 public:
  CachingEngine(kv::Model& model, const PagedOptions& options, FreeOrder order = FreeOrder::kAppend)
      : engine_(model, options, {}, [this, order](int num_blocks, int block_size) {
          auto pool = std::make_unique<BlockPool>(num_blocks, block_size, order);
          pool_ = pool.get();
          return pool;
        }) {}
  CachingEngine(const CachingEngine&) = delete;  // engine_ refers to this object
  CachingEngine& operator=(const CachingEngine&) = delete;

  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override {
    return engine_.generate(requests, on_token);
  }
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return engine_.slots_to_start(requests);
  }

  /// See lesson 06's engine.
  const std::vector<int>& num_cached_tokens() const { return engine_.num_cached_tokens(); }
  const KvCacheManager* manager() const { return engine_.manager(); }
  /// Null before the first generate().
  BlockPool* pool() const { return pool_; }

 private:
  BlockPool* pool_ = nullptr;  // engine_ owns it
  lesson06::PrefixEngine engine_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson07
