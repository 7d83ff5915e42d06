#include "engine.h"

#include "paged_cache_attention.h"

namespace lesson04 {

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<PagedEngine>(
      model, options,
      [](const kv::ModelConfig& config, const kv::Stream& stream, const PagedKvCache& cache) {
        return std::make_unique<PagedCacheAttention>(config, stream, cache);
      });
}

}  // namespace lesson04
