#include "engine.h"

namespace lesson04 {

std::unique_ptr<PagedEngine> make_paged_engine(kv::Model& model, const kv::EngineOptions& options,
                                               int chunk_tokens) {
  const auto make_attention = [](const kv::ModelConfig& config, const kv::Stream&,
                                 const PagedKvCache& cache) {
    return std::make_unique<PagedCacheAttention>(config, cache);
  };
  return std::make_unique<PagedEngine>(model, options, make_attention, chunk_tokens);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return make_paged_engine(model, options);
}

}  // namespace lesson04
