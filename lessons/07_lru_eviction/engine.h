#pragma once

// Generation over a pool that is a cache. Bookkeeping is new; attention is lesson 04's.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block_manager.h"
#include "common/model/engine.h"
#include "common/model/model.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/paged_options.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"

namespace lesson07 {

using lesson03::PagedKvCache;
using lesson04::PagedCacheAttention;

/// What can be chosen beside PagedOptions.
struct CacheOptions {
  FreeOrder free_order = FreeOrder::kAppend;
  int hash_bits = BlockPool::kAllBits;
  /// Blocks are filled with NaN when they are taken: a row that is read before it is written, or
  /// under an old name, is seen at once.
  bool poison = false;
};

/// The pool and what its free blocks hold stay from one generate() to the next, unless that one
/// needs a larger pool.
class CachingEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  CachingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                const CacheOptions& cache = {});

  /// Throws UserError, with both numbers, before anything is computed, if a request is longer than
  /// max_seq_len or the requests together need more blocks than the pool has. Also when it throws,
  /// every block is free afterwards.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  /// The same; request i has extra_keys[i].
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              std::span<const ExtraKeys> extra_keys,
                              const kv::TokenCallback& on_token);

  /// Tokens of each request of the last generate() that came from the cache.
  const std::vector<int>& num_cached_tokens() const { return num_cached_tokens_; }
  /// Null before the first generate().
  BlockManager* manager() { return manager_ ? &*manager_ : nullptr; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void poison_new_blocks(const std::vector<int>& blocks_before);
  void free_all();

  kv::Model* model_;
  lesson03::PagedOptions options_;
  CacheOptions cache_options_;
  std::optional<PagedKvCache> cache_;
  std::optional<PagedCacheAttention> attention_;  // borrows cache_
  std::optional<BlockManager> manager_;
  std::vector<int> sequences_;  // [requests] the manager's numbers, -1: none
  std::vector<int> num_cached_tokens_;
  kv::DeviceBuffer scratch_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson07
