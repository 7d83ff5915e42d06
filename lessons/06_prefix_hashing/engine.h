#pragma once

// Generation over a cache of prefixes: what an earlier request has computed is not computed again.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "block_manager.h"
#include "common/model/engine.h"
#include "common/model/model.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/paged_options.h"
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
  PrefixEngine(kv::Model& model, const lesson03::PagedOptions& options,
               BlockHasher hasher = xxh64_block,
               PrefixIndex::Check check = PrefixIndex::Check::kExact);

  /// Throws UserError, with both numbers, before anything is computed, if a request is longer than
  /// max_seq_len or the requests together need more blocks than the pool has. Also when it throws,
  /// every block is free afterwards.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;

  /// Tokens of each request of the last generate() that came from the cache.
  const std::vector<int>& num_cached_tokens() const { return num_cached_tokens_; }
  /// Null before the first generate().
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  const PagedKvCache* cache() const { return cache_ ? &*cache_ : nullptr; }
  /// The blocks of each request of the last generate(), as it ended. They are free now, and what is
  /// in them stays until the next generate().
  const std::vector<std::vector<int32_t>>& blocks() const { return blocks_; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void free_all();

  kv::Model* model_;
  lesson03::PagedOptions options_;
  BlockHasher hasher_;
  PrefixIndex::Check check_;
  std::optional<PagedKvCache> cache_;
  std::optional<PagedCacheAttention> attention_;  // borrows cache_
  std::optional<BlockManager> manager_;
  std::vector<int> sequences_;  // [requests] the manager's numbers, -1: none
  std::vector<int> num_cached_tokens_;
  std::vector<std::vector<int32_t>> blocks_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson06
