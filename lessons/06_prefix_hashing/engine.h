#pragma once

// Generation over a cache of prefixes: what an earlier request has computed is not computed again.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/model/engine.h"
#include "common/model/generation.h"
#include "common/model/model.h"
#include "kv_cache_manager.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/program/paged_options.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"

namespace lesson06 {

using lesson03::PagedKvCache;
using lesson04::PagedCacheAttention;

/// The pool and what its free blocks hold stay from one generate() to the next, unless that one
/// needs a larger pool. Requests of one generate() start together: none of them finds what another
/// one is about to compute.
class PrefixEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  PrefixEngine(kv::Model& model, const lesson03::PagedOptions& options, BlockHasher hasher = {},
               PrefixIndex::Check check = PrefixIndex::Check::kExact);

  /// Throws UserError, with both numbers, before anything is computed, if a request is longer than
  /// max_seq_len or the requests together need more blocks than the pool has. Also when it throws,
  /// every block is free afterwards.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return lesson03::blocks_needed(requests, options_.block_size) * options_.block_size;
  }
  /// The same; request i has extra_keys[i].
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              std::span<const ExtraKeys> extra_keys,
                              const kv::TokenCallback& on_token = {});

  /// Tokens of each request of the last generate() that came from the cache.
  const std::vector<int>& num_cached_tokens() const { return num_cached_tokens_; }
  /// The blocks of each request of the last generate(), as it ended. They are free now, and what is
  /// in them stays until the next generate().
  const std::vector<std::vector<int32_t>>& blocks() const { return blocks_; }
  /// Null before the first generate(). Request i has the id i.
  const KvCacheManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  PagedKvCache* cache() { return cache_ ? &*cache_ : nullptr; }

 protected:
  // Lesson 07 has another pool, and does something with blocks that are new to a request.
  virtual std::unique_ptr<CachePool> make_pool(int num_blocks);
  virtual void on_new_blocks(std::span<const int32_t>) {}
  kv::Model& model() { return *model_; }
  int block_size() const { return options_.block_size; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void start(size_t request, std::span<const int32_t> tokens, const ExtraKeys& extra_keys);
  void take_slots(size_t request, int num_tokens, const ComputedBlocks& computed = kNone);
  kv::PassRows next_rows(const kv::Generation& generation);
  void end(size_t request);

  kv::Model* model_;
  lesson03::PagedOptions options_;
  BlockHasher hasher_;
  PrefixIndex::Check check_;
  std::optional<PagedKvCache> cache_;
  std::optional<PagedCacheAttention> attention_;  // borrows cache_
  std::unique_ptr<CachePool> pool_;
  std::optional<KvCacheManager> manager_;  // borrows pool_
  std::vector<int> num_cached_tokens_;
  std::vector<int> num_computed_;  // [requests] tokens whose K and V are written after the pass
  std::vector<std::vector<int32_t>> blocks_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson06
