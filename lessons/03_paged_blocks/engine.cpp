#include "engine.h"

#include <stdexcept>
#include <utility>

#include "gathered_attention.h"

namespace lesson03 {

std::unique_ptr<PagedAttentionBase> PagedEngine::make_attention(const kv::ModelConfig& config,
                                                                PagedKvCache& cache) const {
  return std::make_unique<GatheredAttention>(config, cache);
}

void PagedEngine::begin(std::span<const kv::Request> requests) {
  const int size = options().block_size;
  const int num_blocks = num_blocks_for(blocks_needed(requests, size), options());
  if (!cache() || cache()->num_blocks() != num_blocks) make_cache(num_blocks);
  manager_.emplace(num_blocks, size);
  sequences_.assign(requests.size(), -1);
}

int PagedEngine::start(size_t i, std::span<const int32_t>) {
  sequences_[i] = manager_->add_sequence();
  return 0;
}

const BlockTable& PagedEngine::slots_for(size_t i, int num_tokens) {
  const BlockTable& table = manager_->table(sequences_[i]);
  if (!manager_->extend(sequences_[i], num_tokens - table.num_tokens())) {
    throw std::logic_error("the pool was checked to hold this");
  }
  return table;
}

void PagedEngine::end(size_t i) { manager_->free_sequence(std::exchange(sequences_[i], -1)); }

PagedLoop::InUse PagedEngine::in_use() const {
  return {manager_->pool().num_used(), manager_->num_tokens()};
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PagedEngine>(model, options);
}

}  // namespace lesson03
