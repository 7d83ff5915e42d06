#include "engine.h"

#include <numeric>
#include <stdexcept>

#include "lessons/04_paged_attention/paged_cache_attention.h"

namespace lesson06 {

std::unique_ptr<CachePool> PrefixEngine::make_pool(int num_blocks) {
  return std::make_unique<BlockPool>(num_blocks, options().block_size, check_);
}

std::unique_ptr<lesson03::PagedAttentionBase> PrefixEngine::make_attention(
    const kv::ModelConfig& config, lesson03::PagedKvCache& cache) const {
  return std::make_unique<lesson04::PagedCacheAttention>(config, cache);
}

kv::GenerateResult PrefixEngine::generate(std::span<const kv::Request> requests,
                                          const kv::TokenCallback& on_token) {
  num_cached_tokens_.assign(requests.size(), 0);
  hashes_.assign(requests.size(), BlockHashes());
  kv::GenerateResult result = PagedLoop::generate(requests, on_token);
  result.counters.by_name["cache_hit_tokens"] =
      std::accumulate(num_cached_tokens_.begin(), num_cached_tokens_.end(), int64_t{0});
  return result;
}

/// A further sample finds the full blocks of its prompt, but never the last token.
int64_t PrefixEngine::slots_to_start(std::span<const kv::Request> requests) const {
  const int size = options().block_size;
  int64_t slots = PagedLoop::slots_to_start(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!kv::follows_sample(requests, i)) continue;
    slots -= (std::ssize(requests[i].prompt) - 1) / size * size;
  }
  return slots;
}

void PrefixEngine::begin(std::span<const kv::Request> requests) {
  const int64_t needed = slots_to_start(requests) / options().block_size;
  const int num_blocks = lesson03::num_blocks_for(needed, options());
  if (manager_ && pool_->num_blocks() >= needed) return;  // and what it holds stays
  manager_.reset();                                       // until all is made, there is none
  pool_ = make_pool(num_blocks);
  make_cache(pool_->index().num_ids());
  manager_.emplace(*pool_, CacheManagerOptions{.hasher = hasher_});
}

/// What is found is pinned: a request that asks for no new token cannot be refused. The hits of all
/// requests are pinned before any of them gets new blocks.
int PrefixEngine::start(size_t i, std::span<const int32_t> tokens) {
  const ComputedBlocks found = manager_->get_computed_blocks(tokens, hashes_[i]);
  manager_->allocate_slots(static_cast<int64_t>(i), 0, found);
  return num_cached_tokens_[i] = found.num_tokens;
}

const BlockTable& PrefixEngine::slots_for(size_t i, int num_tokens) {
  const auto id = static_cast<int64_t>(i);
  const BlockTable& table = manager_->table(id);
  const auto new_blocks = manager_->allocate_slots(id, num_tokens - table.num_tokens());
  if (!new_blocks) throw std::logic_error("the pool was checked to hold this");
  on_new_blocks(*new_blocks);
  return table;
}

/// K and V are written now, and not before: what has become full can be found.
void PrefixEngine::computed(size_t i, std::span<const int32_t> tokens) {
  manager_->cache_blocks(static_cast<int64_t>(i), tokens, hashes_[i],
                         static_cast<int>(tokens.size()));
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<PrefixEngine>(model, options);
}

}  // namespace lesson06
