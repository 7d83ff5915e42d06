#include "engine.h"

namespace lesson04 {

std::unique_ptr<PagedEngine> make_paged_engine(kv::Model& model,
                                               const lesson03::PagedOptions& options,
                                               int chunk_tokens) {
  const auto make_attention = [](const kv::ModelConfig& config, const kv::Stream&,
                                 const PagedKvCache& cache) {
    return std::make_unique<PagedCacheAttention>(config, cache);
  };
  return std::make_unique<PagedEngine>(model, options, make_attention, chunk_tokens);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return lesson04::make_paged_engine(model, options);
}

}  // namespace lesson04
