#pragma once

// Generation with a paged cache whose K and V are read where they lie. The bookkeeping is lesson
// 03's, but nothing is gathered any more, and a long prompt may come in chunks.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lessons/03_paged_blocks/engine.h"
#include "paged_cache_attention.h"
#include "qwen3/engine.h"
#include "qwen3/model.h"

namespace lesson04 {

using lesson03::BlockManager;
using lesson03::PagedOptions;

/// Lesson 03's engine with paged attention and chunks: a pass runs at most `chunk_tokens` tokens of
/// a sequence (0: no limit). The limit changes no bit.
class PagedEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  PagedEngine(kv::Model& model, const PagedOptions& options, int chunk_tokens = 0);

  /// Throws UserError, with both numbers and before anything is computed, if a request is longer
  /// than max_seq_len or the requests together need more blocks than the pool has.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return lesson03::blocks_needed(requests, options_.block_size) * options_.block_size;
  }

  /// Null before the first generate().
  PagedKvCache* cache() { return cache_ ? &*cache_ : nullptr; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  kv::PassRows next_rows(const kv::Generation& generation);

  kv::Model* model_;
  PagedOptions options_;
  int max_chunk_;
  std::optional<PagedKvCache> cache_;
  std::optional<PagedCacheAttention> attention_;  // borrows cache_
  std::optional<BlockManager> manager_;           // a request's sequence has the request's number
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson04
