#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "common/model/generation.h"

namespace lesson06 {

PrefixEngine::PrefixEngine(kv::Model& model, const lesson03::PagedOptions& options,
                           BlockHasher hasher, PrefixIndex::Check check)
    : model_(&model), options_(options), hasher_(std::move(hasher)), check_(check) {
  lesson03::check(options);
}

void PrefixEngine::make_cache(std::span<const kv::Request> requests) {
  const int64_t needed = lesson03::blocks_needed(requests, options_.block_size);
  const int num_blocks = lesson03::num_blocks_for(needed, options_);
  if (manager_ && cache_->num_blocks() >= needed) return;  // and what it holds stays
  manager_.reset();                                        // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(num_blocks, options_.block_size, hasher_, check_);
}

kv::GenerateResult PrefixEngine::generate(std::span<const kv::Request> requests,
                                          const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  num_cached_tokens_.assign(requests.size(), 0);
  blocks_.assign(requests.size(), {});
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  for (size_t i = 0; i < requests.size(); ++i) {
    sequences_.push_back(-1);
    if (!generation.active(i)) continue;
    const BlockManager::Start start = manager_->start(generation.tokens(i));
    sequences_[i] = start.seq;
    num_cached_tokens_[i] = start.num_cached_tokens;
    result.counters.by_name["cache_hit_tokens"] += start.num_cached_tokens;
  }

  while (generation.any_active()) {
    // The tokens that are known but have no slot yet: at first what the cache did not have.
    kv::PassRows rows;
    std::vector<Growth> growths;
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i)) continue;
      const int known = static_cast<int>(generation.tokens(i).size());
      const int computed = manager_->table(sequences_[i]).num_tokens();
      rows.add(i, generation.tokens(i), computed);
      growths.push_back({.seq = sequences_[i], .num_tokens = known - computed});
    }
    if (!manager_->extend(growths)) throw std::logic_error("the pool was checked to hold this");
    lesson03::BlockTables tables;
    int64_t num_slots = 0;
    for (const Growth& growth : growths) {
      const BlockTable& table = manager_->table(growth.seq);
      tables.push_back(&table);
      num_slots += table.num_tokens();
    }
    attention_->set_tables(std::move(tables));
    const std::span<const float> logits = model_->forward(rows, *attention_);
    // K and V are written now, and not before: what has become full can be found.
    for (const size_t i : rows.requests) manager_->publish(sequences_[i], generation.tokens(i));

    const int64_t used = manager_->pool().num_used();
    int64_t& most_blocks = result.counters.by_name["blocks_in_use"];
    most_blocks = std::max(most_blocks, used);
    kv::note_kv_bytes(
        result.counters, used * cache_->bytes_per_block(),
        std::min(num_slots * cache_->bytes_per_token(), used * cache_->bytes_per_block()));
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (generation.active(i)) continue;
      const auto ids = manager_->table(sequences_[i]).block_ids();
      blocks_[i].assign(ids.begin(), ids.end());
      manager_->free_sequence(std::exchange(sequences_[i], -1));
    }
    timer.end_pass(rows.num_rows(), result);
  }
  result.completions = generation.completions();
  return result;
}

void PrefixEngine::free_all() {
  for (const int seq : sequences_) {
    if (seq >= 0) manager_->free_sequence(seq);
  }
  sequences_.clear();
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<PrefixEngine>(model, options);
}

}  // namespace lesson06
