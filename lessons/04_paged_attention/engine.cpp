#include "engine.h"

#include <algorithm>

namespace lesson04 {

std::unique_ptr<lesson03::PagedAttentionBase> PagedEngine::make_attention(
    const kv::ModelConfig& config, PagedKvCache& cache) const {
  return std::make_unique<PagedCacheAttention>(config, cache);
}

/// A chunk that does not end its prompt predicts nothing: the loop asks for no logits then.
int PagedEngine::tokens_of_pass(int num_new) const {
  return chunk_tokens_ > 0 ? std::min(num_new, chunk_tokens_) : num_new;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PagedEngine>(model, options);
}

}  // namespace lesson04
