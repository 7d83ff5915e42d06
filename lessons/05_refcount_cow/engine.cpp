#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/defer.h"
#include "copy_blocks.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson05 {

SharingEngine::SharingEngine(kv::Model& model, const lesson03::PagedOptions& options)
    : model_(&model), options_(options) {
  lesson03::check(options);
}

/// Slots of all blocks that the requests fill. Samples share the full blocks of their prompt.
int64_t SharingEngine::slots_to_start(std::span<const kv::Request> requests) const {
  int64_t blocks = lesson03::blocks_needed(requests, options_.block_size);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!kv::follows_sample(requests, i)) continue;
    blocks -= std::ssize(requests[i].prompt) / options_.block_size;
  }
  return blocks * options_.block_size;
}

void SharingEngine::make_cache(std::span<const kv::Request> requests) {
  const int num_blocks =
      lesson03::num_blocks_for(slots_to_start(requests) / options_.block_size, options_);
  if (!attention_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // frees the old blocks before the new ones are allocated
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
    // Blocks are copied whole, with slots that nobody has written yet: these need a value, too.
    if (model_->device() == kv::Device::kCuda) lesson03::fill_blocks(*cache_, 0, model_->stream());
    regions_.emplace(regions_of(*cache_, model_->stream()));
    attention_.emplace(model_->config(), *cache_);
  }
  manager_.emplace(num_blocks, options_.block_size, [this](std::span<const BlockCopy> copies) {
    copy_blocks({.regions = &*regions_, .copies = copies}, model_->stream());
  });
}

void SharingEngine::note_blocks(kv::EngineCounters& counters) const {
  const BlockPool& pool = manager_->pool();
  counters.note_peak("blocks_in_use", pool.num_used());
  counters.note_peak("blocks_shared", pool.num_shared());
  counters.note_peak("blocks_as_copies", pool.num_references());
  counters.kv_bytes_copied = manager_->num_copies() * cache_->bytes_per_block();

  // After an append every shared block is full, so each empty slot belongs to one sequence.
  // After a fork this counts too few slots, but a fork takes no block, so it sets no new peak.
  int64_t num_slots = int64_t{pool.num_used()} * options_.block_size;
  for (const auto& [seq, table] : manager_->tables()) {
    num_slots -= options_.block_size - table.last_block_fill();
  }
  kv::note_kv_bytes(counters, pool.num_used() * cache_->bytes_per_block(),
                    num_slots * cache_->bytes_per_token());
}

/// Runs a pass over the tokens that have no slot yet. tokens(i) are the known tokens of sequence i.
template <class TokensOf>
std::span<const float> SharingEngine::forward(const TokensOf& tokens,
                                              kv::EngineCounters& counters) {
  rows_ = {};
  std::vector<Growth> growths;
  lesson03::BlockTables tables;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i] < 0) continue;
    const BlockTable& table = manager_->table(sequences_[i]);
    const std::span<const int32_t> known = tokens(i);
    rows_.add(i, known, table.num_tokens());
    growths.push_back({sequences_[i], static_cast<int>(known.size()) - table.num_tokens()});
    tables.push_back(&table);
  }
  if (!manager_->append(growths)) throw std::logic_error("the pool was checked to hold this");
  note_blocks(counters);
  attention_->set_tables(std::move(tables));
  return model_->forward(rows_, *attention_);
}

/// Makes sequence i a continuation of the old sequence parents[i]: forks each parent, then frees
/// the old sequences. No byte moves.
void SharingEngine::continue_from(std::span<const size_t> parents, kv::EngineCounters& counters) {
  std::vector<int> next;
  for (const size_t parent : parents) next.push_back(manager_->fork(sequences_[parent]));
  for (const int seq : sequences_) manager_->free_sequence(seq);
  sequences_ = std::move(next);
  note_blocks(counters);
}

void SharingEngine::free_all() {
  while (!manager_->tables().empty()) manager_->free_sequence(manager_->tables().begin()->first);
  sequences_.clear();
}

kv::GenerateResult SharingEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  make_cache(requests);
  const kv::Defer free_blocks{[this] { free_all(); }};
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool runs = generation.active(i) && !kv::follows_sample(requests, i);
    sequences_.push_back(runs ? manager_->add_sequence() : -1);
  }
  while (generation.any_active()) {
    const auto logits = forward([&](size_t i) { return generation.tokens(i); }, result.counters);
    if (result.passes.empty()) {
      accept_prompts(requests, logits, generation, result.counters);
    } else {
      generation.accept(rows_, logits);
    }
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (generation.active(i) || sequences_[i] < 0) continue;
      manager_->free_sequence(std::exchange(sequences_[i], -1));  // its blocks are free for others
    }
    timer.end_pass(rows_.num_rows(), rows_.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

/// Called when the prompts have run. Samples fork their request's sequence, and all draw from its
/// row of logits.
void SharingEngine::accept_prompts(std::span<const kv::Request> requests,
                                   std::span<const float> logits, kv::Generation& generation,
                                   kv::EngineCounters& counters) {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (kv::follows_sample(requests, i)) sequences_[i] = manager_->fork(sequences_[i - 1]);
  }
  note_blocks(counters);
  const size_t vocab = logits.size() / rows_.requests.size();
  for (size_t row = 0; row < rows_.requests.size(); ++row) {
    size_t i = rows_.requests[row];
    do {
      generation.accept(i, logits.subspan(row * vocab, vocab));
    } while (++i < requests.size() && kv::follows_sample(requests, i));
  }
}

kv::BeamSearchResult SharingEngine::beam_search(const kv::Request& request,
                                                const kv::BeamSearchParams& params,
                                                const kv::BeamCallback& on_step) {
  kv::check_requests({&request, 1}, model_->config());
  kv::check_seq_len_limit({&request, 1}, options_.engine.max_seq_len);
  kv::BeamSearch search(params, request.max_tokens, request.stop_token_ids);
  kv::BeamSearchResult result;
  kv::PassTimer timer;
  make_cache(kv::samples_of(request, params.num_beams));
  const kv::Defer free_blocks{[this] { free_all(); }};
  if (!search.done()) sequences_.assign(1, manager_->add_sequence());

  std::vector<int32_t> tokens;
  for (bool go_on = true; go_on && !search.done();) {
    const auto logits = forward(
        [&](size_t i) {
          tokens = request.prompt;
          std::ranges::copy(search.live()[i].tokens, std::back_inserter(tokens));
          return std::span(tokens);
        },
        result.counters);
    continue_from(search.step(logits), result.counters);
    timer.end_pass(rows_.num_rows(), rows_.num_seqs(), result);
    go_on = !on_step || on_step(search.live());
  }
  result.beams = search.best();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<SharingEngine>(model, options);
}

}  // namespace lesson05
