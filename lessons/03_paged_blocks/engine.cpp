#include "engine.h"

#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/model/generation.h"
#include "gathered_attention.h"

namespace lesson03 {

PagedEngine::PagedEngine(kv::Model& model, const PagedOptions& options)
    : model_(&model), options_(options) {
  check(options);
}

std::unique_ptr<PagedAttentionBase> PagedEngine::make_attention(const kv::ModelConfig& config,
                                                                PagedKvCache& cache) const {
  return std::make_unique<GatheredAttention>(config, cache);
}

void PagedEngine::make_cache(std::span<const kv::Request> requests) {
  const int num_blocks = num_blocks_for(blocks_needed(requests, options_.block_size), options_);
  if (!attention_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // the old blocks go before the new ones come
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
    attention_ = make_attention(model_->config(), *cache_);
  }
  manager_.emplace(num_blocks, options_.block_size);
}

kv::GenerateResult PagedEngine::generate(std::span<const kv::Request> requests,
                                         const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  for (size_t i = 0; i < requests.size(); ++i) {
    sequences_.push_back(generation.active(i) ? manager_->add_sequence() : -1);
  }
  const int64_t copied_before = attention_->kv_bytes_copied();

  while (generation.any_active()) {
    // The tokens that are known but have no slot yet: first the prompts, afterwards one of each.
    kv::PassRows rows;
    BlockTables tables;
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i)) continue;
      const std::span<const int32_t> known = generation.tokens(i);
      const int computed = manager_->table(sequences_[i]).num_tokens();
      const int num_new = tokens_of_pass(static_cast<int>(known.size()) - computed);
      const auto end = static_cast<size_t>(computed + num_new);
      if (!manager_->extend(sequences_[i], num_new)) {
        throw std::logic_error("the pool was checked to hold this");
      }
      rows.add(i, known.first(end), computed, /*wants_logits=*/end == known.size());
      tables.push_back(&manager_->table(sequences_[i]));
    }
    attention_->set_tables(std::move(tables));
    const std::span<const float> logits = model_->forward(rows, *attention_);
    const int64_t used_blocks = manager_->pool().num_used();
    result.counters.note_peak("blocks_in_use", used_blocks);
    kv::note_kv_bytes(result.counters, used_blocks * cache_->bytes_per_block(),
                      manager_->num_tokens() * cache_->bytes_per_token());
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (generation.active(i)) continue;
      manager_->free_sequence(std::exchange(sequences_[i], -1));  // the blocks serve others now
    }
    timer.end_pass(rows.num_rows(), result);
  }
  result.counters.kv_bytes_copied = attention_->kv_bytes_copied() - copied_before;
  result.completions = generation.completions();
  return result;
}

void PagedEngine::free_all() {
  for (const int seq : sequences_) {
    if (seq >= 0) manager_->free_sequence(seq);
  }
  sequences_.clear();
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PagedEngine>(model, options);
}

}  // namespace lesson03
