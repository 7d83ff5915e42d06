#pragma once

// Lesson 07's pool in an engine that fills each block with NaN when it is taken. A row that is read
// before it is written, or under an old key, shows up in the logits.

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "lessons/06_prefix_hashing/engine.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "lessons/07_lru_eviction/poison_blocks.h"

namespace lesson07_test {

/// Lesson 07's pool, which calls a function with the blocks that have been taken.
class WatchedPool final : public lesson07::BlockPool {
 public:
  using OnTaken = std::function<void(std::span<const int32_t> ids)>;
  WatchedPool(int num_blocks, int block_size, OnTaken on_taken)
      : BlockPool(num_blocks, block_size), on_taken_(std::move(on_taken)) {}

  bool get_new_blocks(std::span<int32_t> ids) override {
    if (!BlockPool::get_new_blocks(ids)) return false;
    on_taken_(ids);
    return true;
  }

 private:
  OnTaken on_taken_;
};

class PoisoningEngine {
 public:
  PoisoningEngine(kv::Model& model, const lesson06::PagedOptions& options,
                  const lesson06::BlockHasher& hasher = {})
      : model_(&model), engine_(model, options, hasher, [this](int num_blocks, int block_size) {
          return std::make_unique<WatchedPool>(num_blocks, block_size,
                                               [this](auto ids) { poison(ids); });
        }) {}

  kv::GenerateResult generate(const kv::Request& request) {
    return engine_.generate({&request, 1});
  }
  const lesson06::KvCacheManager& manager() const { return *engine_.manager(); }

 private:
  void poison(std::span<const int32_t> ids) {
    const auto regions = lesson05::regions_of(*engine_.cache(), model_->stream());
    lesson07::poison_blocks({.regions = &regions, .block_ids = ids, .scratch = &scratch_},
                            model_->stream());
    model_->stream().synchronize();  // before the list of regions is freed
  }

  kv::Model* model_;
  kv::DeviceBuffer scratch_;
  lesson06::PrefixEngine engine_;
};

}  // namespace lesson07_test
