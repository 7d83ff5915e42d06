#include "engine.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/defer.h"

namespace lesson06 {
namespace {

int64_t id_of(size_t request) { return static_cast<int64_t>(request); }

}  // namespace

std::unique_ptr<CachePool> make_pool(int num_blocks, int block_size) {
  return std::make_unique<BlockPool>(num_blocks, block_size);
}

PrefixEngine::PrefixEngine(kv::Model& model, const PagedOptions& options, const BlockHasher& hasher,
                           MakePool make_pool)
    : model_(&model), options_(options), hasher_(hasher), make_pool_(std::move(make_pool)) {
  lesson03::check(options);
}

/// A further sample finds the full blocks of its prompt, but never the last token.
int64_t PrefixEngine::slots_to_start(std::span<const kv::Request> requests) const {
  const int size = options_.block_size;
  int64_t slots = lesson03::blocks_needed(requests, size) * size;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (kv::follows_sample(requests, i))
      slots -= (std::ssize(requests[i].prompt) - 1) / size * size;
  }
  return slots;
}

void PrefixEngine::make_cache(std::span<const kv::Request> requests) {
  const int64_t needed = slots_to_start(requests) / options_.block_size;
  const int num_blocks = lesson03::num_blocks_for(needed, options_);
  if (manager_ && pool_->num_blocks() >= needed) return;  // its content is kept
  manager_.reset();
  attention_.reset();
  cache_.reset();  // frees the old blocks before the new ones are allocated
  pool_ = make_pool_(num_blocks, options_.block_size);
  cache_.emplace(model_->config(), model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(*pool_, CacheManagerOptions{.hasher = hasher_});
}

/// Pins the hits. A request that asks for no new token cannot be refused. The hits of all requests
/// are pinned before any request gets new blocks.
void PrefixEngine::start(size_t i, std::span<const int32_t> tokens) {
  const ComputedBlocks found = manager_->get_computed_blocks(tokens, hashes_[i]);
  manager_->allocate_slots(id_of(i), 0, found);
  num_cached_tokens_[i] = found.num_tokens;
}

/// The rows of the next pass, all tokens not computed yet: the prompts at first, then one token per
/// request. Gives them slots.
kv::PassRows PrefixEngine::next_rows(const kv::Generation& generation) {
  kv::PassRows rows;
  lesson03::BlockTables tables;
  for (size_t i = 0; i < generation.size(); ++i) {
    if (!manager_->holds(id_of(i))) continue;
    const BlockTable& table = manager_->table(id_of(i));
    const std::span<const int32_t> known = generation.tokens(i);
    const int computed = table.num_tokens();
    if (!manager_->allocate_slots(id_of(i), static_cast<int>(known.size()) - computed)) {
      throw std::logic_error("the pool was checked to hold this");
    }
    rows.add(i, known, computed);
    tables.push_back(&table);
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

void PrefixEngine::note_blocks(kv::EngineCounters& counters) const {
  const int64_t used = pool_->num_used();
  counters.note_peak("blocks_in_use", used);
  kv::note_kv_bytes(counters, used * cache_->bytes_per_block(),
                    manager_->num_slots_used() * cache_->bytes_per_token());
}

kv::GenerateResult PrefixEngine::generate(std::span<const kv::Request> requests,
                                          const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  num_cached_tokens_.assign(requests.size(), 0);
  hashes_.assign(requests.size(), BlockHashes());
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::Defer free_all{[&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (manager_->holds(id_of(i))) manager_->free(id_of(i));
    }
  }};
  const auto start_all = [&](bool further_samples) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool now = kv::follows_sample(requests, i) == further_samples;
      if (now && generation.active(i)) start(i, generation.tokens(i));
    }
  };
  start_all(/*further_samples=*/false);
  while (generation.any_active()) {
    const kv::PassRows rows = next_rows(generation);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    for (const size_t i : rows.requests) {  // K and V are written now: full blocks can be found
      const auto tokens = generation.tokens(i);
      manager_->cache_blocks(id_of(i), tokens, hashes_[i], static_cast<int>(tokens.size()));
    }
    if (result.passes.empty()) start_all(/*further_samples=*/true);
    note_blocks(result.counters);
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (!generation.active(i)) manager_->free(id_of(i));
    }
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.counters.by_name["cache_hit_tokens"] =
      std::accumulate(num_cached_tokens_.begin(), num_cached_tokens_.end(), int64_t{0});
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PrefixEngine>(model, options);
}

}  // namespace lesson06
