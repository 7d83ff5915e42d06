#pragma once

// Generation over a cache of prefixes: a prefix that an earlier request has computed is not
// computed again.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv_cache_manager.h"
#include "lessons/03_paged_blocks/engine.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "qwen3/engine.h"
#include "qwen3/generation.h"
#include "qwen3/model.h"

namespace lesson06 {

using lesson03::PagedKvCache;
using lesson03::PagedOptions;

/// Returns a pool of num_blocks blocks of block_size tokens.
using MakePool = std::function<std::unique_ptr<CachePool>(int num_blocks, int block_size)>;
std::unique_ptr<CachePool> make_pool(int num_blocks, int block_size);  // this lesson's BlockPool

/// Keeps its pool, and what the free blocks hold, for the next generate(), unless that needs a
/// larger pool. Requests of one generate() start together, so none of them finds blocks that
/// another request is about to compute. Further samples of a prompt start one pass later and find
/// its full blocks; the rest, at most block_size tokens, each sample computes again. After a
/// generate(), even if it throws, every block is free.
class PrefixEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  PrefixEngine(kv::Model& model, const PagedOptions& options, const BlockHasher& hasher = {},
               MakePool make_pool = lesson06::make_pool);

  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override;

  /// Tokens of each request of the last generate() that came from the cache.
  const std::vector<int>& num_cached_tokens() const { return num_cached_tokens_; }
  /// Both are null before the first generate(), and may be read inside a token callback. Request i
  /// has the id i.
  const KvCacheManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  PagedKvCache* cache() { return manager_ ? &*cache_ : nullptr; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void start(size_t i, std::span<const int32_t> tokens);
  kv::PassRows next_rows(const kv::Generation& generation);
  void note_blocks(kv::EngineCounters& counters) const;

  kv::Model* model_;
  PagedOptions options_;
  BlockHasher hasher_;
  MakePool make_pool_;
  std::unique_ptr<CachePool> pool_;
  std::optional<PagedKvCache> cache_;
  std::optional<lesson04::PagedCacheAttention> attention_;  // borrows cache_
  std::optional<KvCacheManager> manager_;                   // borrows pool_
  std::vector<int> num_cached_tokens_;                      // [requests]
  std::vector<BlockHashes> hashes_;                         // [requests]
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson06
