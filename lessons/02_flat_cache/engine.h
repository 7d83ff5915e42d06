#pragma once

// Generation with a flat cache: the prompts go through the model once, then one token of each
// sequence per step.

#include <memory>
#include <optional>
#include <span>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "flat_attention.h"
#include "flat_kv_cache.h"

namespace lesson02 {

/// Every request gets a slab of max_seq_len slots for the whole of generate(): one that is finished
/// keeps its slab until the last one is. The cache is kept for the next generate() of the same
/// shape.
class FlatCacheEngine : public kv::Engine {
 public:
  FlatCacheEngine(kv::Model& model, const kv::EngineOptions& options);
  /// Throws UserError, with both numbers, for a request longer than max_seq_len, before anything is
  /// computed; DeviceError if the slabs do not fit in the device's memory.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override;

  /// The cache of the last generate(); null before the first.
  const FlatKvCache* cache() const { return cache_ ? &*cache_ : nullptr; }

 private:
  int max_seq_len(std::span<const kv::Request> requests) const;
  void make_cache(std::span<const kv::Request> requests);

  kv::Model* model_;
  kv::EngineOptions options_;
  std::optional<FlatKvCache> cache_;
  std::optional<FlatAttention> attention_;  // borrows cache_
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options);

}  // namespace lesson02
