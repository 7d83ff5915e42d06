#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/defer.h"

namespace lesson04 {

PagedEngine::PagedEngine(kv::Model& model, const PagedOptions& options, int chunk_tokens)
    : model_(&model), options_(options), max_chunk_(chunk_tokens > 0 ? chunk_tokens : INT32_MAX) {
  lesson03::check(options);
}

void PagedEngine::make_cache(std::span<const kv::Request> requests) {
  const int num_blocks =
      lesson03::num_blocks_for(lesson03::blocks_needed(requests, options_.block_size), options_);
  if (!cache_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // frees the old blocks before the new ones are allocated
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
    attention_.emplace(model_->config(), *cache_);
  }
  manager_.emplace(num_blocks, options_.block_size);
}

/// The rows of the next pass: of each sequence the tokens that are known but not computed yet, or
/// the first chunk of them.
kv::PassRows PagedEngine::next_rows(const kv::Generation& generation) {
  kv::PassRows rows;
  BlockTables tables;
  for (const auto& [seq, table] : manager_->tables()) {
    const size_t i = seq;
    const std::span<const int32_t> known = generation.tokens(i);
    const int computed = table.num_tokens();
    const int chunk = std::min(static_cast<int>(known.size()) - computed, max_chunk_);
    if (!manager_->extend(seq, chunk)) {
      throw std::logic_error("the pool was checked to hold this");
    }
    const auto in_pass = known.first(computed + chunk);
    rows.add(i, in_pass, computed, /*wants_logits=*/in_pass.size() == known.size());
    tables.push_back(&table);
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

kv::GenerateResult PagedEngine::generate(std::span<const kv::Request> requests,
                                         const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  make_cache(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const int seq = manager_->add_sequence();  // i, as the manager is new
    if (!generation.active(i)) manager_->free_sequence(seq);
  }
  const kv::Defer free_all{[this] {
    while (!manager_->tables().empty()) manager_->free_sequence(manager_->tables().begin()->first);
  }};
  while (generation.any_active()) {
    const kv::PassRows rows = next_rows(generation);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    lesson03::note_blocks(result.counters, *manager_, *cache_);
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (!generation.active(i)) manager_->free_sequence(static_cast<int>(i));
    }
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PagedEngine>(model, options);
}

}  // namespace lesson04
