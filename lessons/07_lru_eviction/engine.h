#pragma once

// Lesson 06's generation over a pool that is a cache.

#include <memory>
#include <optional>
#include <span>

#include "block_pool.h"
#include "lessons/06_prefix_hashing/engine.h"

namespace lesson07 {

/// What can be chosen beside EngineOptions.
struct CacheOptions {
  FreeOrder free_order = FreeOrder::kAppend;
  lesson06::BlockHasher hasher = {};
  /// Blocks are filled with NaN when they are taken: a row that is read before it is written, or
  /// under an old name, is seen at once.
  bool poison = false;
};

class CachingEngine : public lesson06::PrefixEngine {
 public:
  CachingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                const CacheOptions& cache = {})
      : PrefixEngine(model, options, cache.hasher), cache_options_(cache) {}

  /// Null before the first generate().
  BlockPool* pool() { return pool_; }

 private:
  std::unique_ptr<lesson06::CachePool> make_pool(int num_blocks) override;
  void on_new_blocks(std::span<const int32_t> ids) override;

  CacheOptions cache_options_;
  BlockPool* pool_ = nullptr;  // owned by lesson 06's engine
  kv::DeviceBuffer scratch_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson07
