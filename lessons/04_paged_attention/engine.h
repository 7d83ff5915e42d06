#pragma once

// Generation with a paged cache that is read where it lies. Bookkeeping is lesson 03's; nothing is
// gathered any more.

#include <memory>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "lessons/03_paged_blocks/engine.h"
#include "paged_cache_attention.h"

namespace lesson04 {

using lesson03::PagedOptions;

/// Lesson 03's engine with PagedCacheAttention. `chunk_tokens`: at most so many tokens of a
/// sequence in one pass, so that long prompts come in chunks; 0: no limit. The bits are the same
/// for all.
class PagedEngine : public lesson03::PagedEngine {
 public:
  PagedEngine(kv::Model& model, const PagedOptions& options, int chunk_tokens = 0)
      : lesson03::PagedEngine(model, options), chunk_tokens_(chunk_tokens) {}

 private:
  std::unique_ptr<lesson03::PagedAttentionBase> make_attention(const kv::ModelConfig& config,
                                                               PagedKvCache& cache) const override {
    return std::make_unique<PagedCacheAttention>(config, cache);
  }
  /// A chunk that does not end its prompt predicts nothing: the loop asks for no logits then.
  int max_rows_per_seq() const override { return chunk_tokens_ > 0 ? chunk_tokens_ : INT32_MAX; }

  int chunk_tokens_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson04
