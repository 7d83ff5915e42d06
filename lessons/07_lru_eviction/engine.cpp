#include "engine.h"

#include "poison_blocks.h"

namespace lesson07 {

std::unique_ptr<lesson06::CachePool> CachingEngine::make_pool(int num_blocks) {
  auto pool =
      std::make_unique<BlockPool>(num_blocks, options().block_size, cache_options_.free_order);
  pool_ = pool.get();
  return pool;
}

void CachingEngine::on_new_blocks(std::span<const int32_t> ids) {
  if (!cache_options_.poison) return;
  poison_blocks({.cache = cache(), .block_ids = ids, .scratch = &scratch_}, model().stream());
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<CachingEngine>(model, options);
}

}  // namespace lesson07
