#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "common/model/generation.h"
#include "poison_blocks.h"

namespace lesson07 {

CachingEngine::CachingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                             const CacheOptions& cache)
    : model_(&model), options_(options), cache_options_(cache) {
  lesson03::check(options);
}

void CachingEngine::make_cache(std::span<const kv::Request> requests) {
  const int64_t needed = lesson03::blocks_needed(requests, options_.block_size);
  const int num_blocks = lesson03::num_blocks_for(needed, options_);
  if (manager_ && manager_->pool().num_blocks() >= needed) return;  // and what it holds stays
  manager_.reset();  // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  cache_.emplace(model_->config(), model_->stream(), num_blocks + 1,
                 options_.block_size);  // and the null block
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(num_blocks, options_.block_size, cache_options_.free_order,
                   cache_options_.hash_bits);
}

kv::GenerateResult CachingEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  const std::vector<ExtraKeys> none(requests.size());
  return generate(requests, none, on_token);
}

/// `blocks_before`: of each sequence's table. What stands behind them is new.
void CachingEngine::poison_new_blocks(const std::vector<int>& blocks_before) {
  if (!cache_options_.poison) return;
  std::vector<int32_t> fresh;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i] < 0) continue;
    const auto ids = manager_->table(sequences_[i]).block_ids();
    fresh.insert(fresh.end(), ids.begin() + blocks_before[i], ids.end());
  }
  poison_blocks({.cache = &*cache_, .block_ids = fresh, .scratch = &scratch_}, model_->stream());
}

kv::GenerateResult CachingEngine::generate(std::span<const kv::Request> requests,
                                           std::span<const ExtraKeys> extra_keys,
                                           const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  num_cached_tokens_.assign(requests.size(), 0);
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  std::vector<int> computed(requests.size(), 0);  // tokens whose K and V are written
  std::vector<int> blocks_before(requests.size(), 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    sequences_.push_back(-1);
    if (!generation.active(i)) continue;
    const auto start = manager_->start(generation.tokens(i), extra_keys[i]);
    if (!start) throw std::logic_error("the pool was checked to hold this");
    sequences_[i] = start->seq;
    num_cached_tokens_[i] = computed[i] = start->num_cached_tokens;
    blocks_before[i] = start->num_cached_tokens / options_.block_size;
    result.counters.by_name["cache_hit_tokens"] += start->num_cached_tokens;
  }
  poison_new_blocks(blocks_before);

  while (generation.any_active()) {
    kv::PassRows rows;
    std::vector<Growth> growths;
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i)) continue;
      const BlockTable& table = manager_->table(sequences_[i]);
      rows.add(i, generation.tokens(i), computed[i]);
      const int known = static_cast<int>(generation.tokens(i).size());
      if (known > table.num_tokens()) {
        growths.push_back({.seq = sequences_[i], .num_tokens = known - table.num_tokens()});
      }
      blocks_before[i] = table.num_blocks();
    }
    if (!manager_->extend(growths)) throw std::logic_error("the pool was checked to hold this");
    poison_new_blocks(blocks_before);
    lesson03::BlockTables tables;
    int64_t num_slots = 0;
    for (const size_t i : rows.requests) {
      tables.push_back(&manager_->table(sequences_[i]));
      computed[i] = tables.back()->num_tokens();
      num_slots += computed[i];
    }
    attention_->set_tables(std::move(tables));
    const std::span<const float> logits = model_->forward(rows, *attention_);
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
      manager_->free_sequence(std::exchange(sequences_[i], -1));
    }
    timer.end_pass(rows.num_rows(), result);
  }
  result.completions = generation.completions();
  return result;
}

void CachingEngine::free_all() {
  for (const int seq : sequences_) {
    if (seq >= 0) manager_->free_sequence(seq);
  }
  sequences_.clear();
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<CachingEngine>(model, options);
}

}  // namespace lesson07
