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

std::unique_ptr<CachePool> PrefixEngine::make_pool(int num_blocks) {
  return std::make_unique<BlockPool>(num_blocks, options_.block_size, check_);
}

void PrefixEngine::make_cache(std::span<const kv::Request> requests) {
  const int64_t needed = lesson03::blocks_needed(requests, options_.block_size);
  const int num_blocks = lesson03::num_blocks_for(needed, options_);
  if (manager_ && pool_->num_blocks() >= needed) return;  // and what it holds stays
  manager_.reset();                                       // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  pool_ = make_pool(num_blocks);
  cache_.emplace(model_->config(), model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(*pool_, CacheManagerOptions{.hasher = hasher_});
}

void PrefixEngine::take_slots(size_t request, int num_tokens, const ComputedBlocks& computed) {
  const auto blocks = manager_->allocate_slots(static_cast<int64_t>(request), num_tokens, computed);
  if (!blocks) throw std::logic_error("the pool was checked to hold this");
  on_new_blocks(*blocks);
}

/// What the cache has, and slots for the rest of the prompt.
void PrefixEngine::start(size_t request, std::span<const int32_t> tokens,
                         const ExtraKeys& extra_keys) {
  const ComputedBlocks computed = manager_->get_computed_blocks(tokens, extra_keys);
  take_slots(request, static_cast<int>(tokens.size()) - computed.num_tokens, computed);
  num_cached_tokens_[request] = computed.num_tokens;
}

kv::GenerateResult PrefixEngine::generate(std::span<const kv::Request> requests,
                                          const kv::TokenCallback& on_token) {
  return generate(requests, std::vector<ExtraKeys>(requests.size()), on_token);
}

/// The tokens of each request that are known and not computed, with their slots.
kv::PassRows PrefixEngine::next_rows(const kv::Generation& generation) {
  kv::PassRows rows;
  lesson03::BlockTables tables;
  for (size_t i = 0; i < generation.size(); ++i) {
    if (!generation.active(i)) continue;
    const BlockTable& table = manager_->table(static_cast<int64_t>(i));
    const int known = static_cast<int>(generation.tokens(i).size());
    take_slots(i, known - table.num_tokens());  // none for a prompt: it has its slots
    rows.add(i, generation.tokens(i), num_computed_[i]);
    tables.push_back(&table);
    num_computed_[i] = known;
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

/// Of a request that has ended: its blocks are free.
void PrefixEngine::end(size_t request) {
  const auto id = static_cast<int64_t>(request);
  const auto ids = manager_->table(id).block_ids();
  blocks_[request].assign(ids.begin(), ids.end());
  manager_->free(id);
}

kv::GenerateResult PrefixEngine::generate(std::span<const kv::Request> requests,
                                          std::span<const ExtraKeys> extra_keys,
                                          const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  num_cached_tokens_.assign(requests.size(), 0);
  blocks_.assign(requests.size(), {});
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::AtEnd free_all{[&] {
    for (int64_t id = 0; id < std::ssize(requests); ++id) {
      if (manager_->holds(id)) manager_->free(id);
    }
  }};
  for (size_t i = 0; i < requests.size(); ++i) {
    if (generation.active(i)) start(i, generation.tokens(i), extra_keys[i]);
    result.counters.by_name["cache_hit_tokens"] += num_cached_tokens_[i];
  }
  num_computed_ = num_cached_tokens_;
  while (generation.any_active()) {
    const kv::PassRows rows = next_rows(generation);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    // K and V are written now, and not before: what has become full can be found.
    for (const size_t i : rows.requests) {
      manager_->cache_blocks(static_cast<int64_t>(i), generation.tokens(i), num_computed_[i]);
    }
    const int64_t used = pool_->num_used();
    int64_t& most_blocks = result.counters.by_name["blocks_in_use"];
    most_blocks = std::max(most_blocks, used);
    kv::note_kv_bytes(result.counters, used * cache_->bytes_per_block(),
                      manager_->num_slots_used() * cache_->bytes_per_token());
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (!generation.active(i)) end(i);
    }
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<PrefixEngine>(model, options);
}

}  // namespace lesson06
