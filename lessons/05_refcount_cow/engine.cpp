#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "common/model/generation.h"
#include "copy_blocks.h"
#include "lessons/03_paged_blocks/engine.h"

namespace lesson05 {
namespace {

constexpr int kMaxBlockSize = lesson04::kMaxBlockSize;

/// Blocks that `n` continuations of one prompt fill when each has reached its end: the prompt's
/// full blocks once, all else n times.
int64_t blocks_needed_by_forks(const kv::Request& request, int n, int block_size) {
  const int64_t tokens = kv::tokens_to_compute(request);
  if (tokens == 0) return 0;
  const int64_t shared = static_cast<int64_t>(request.prompt.size()) / block_size;
  return shared + n * ((tokens + block_size - 1) / block_size - shared);
}

/// Slots that hold a token, each counted once however many sequences share it.
int64_t slots_used(const BlockManager& manager) {
  std::vector<int> fill(static_cast<size_t>(manager.pool().num_blocks()), 0);
  for (const auto& [seq, table] : manager.tables()) {
    for (int i = 0; i < table.num_blocks(); ++i) {
      int& slots = fill[static_cast<size_t>(table.block_ids()[static_cast<size_t>(i)])];
      slots = std::max(slots,
                       i + 1 < table.num_blocks() ? manager.block_size() : table.last_block_fill());
    }
  }
  int64_t sum = 0;
  for (const int slots : fill) sum += slots;
  return sum;
}

}  // namespace

SharingEngine::SharingEngine(kv::Model& model, const kv::EngineOptions& options)
    : model_(&model), options_(options) {
  lesson03::check_block_options(options);
}

void SharingEngine::make_cache(int64_t blocks_needed) {
  const int num_blocks = lesson03::num_blocks_for(blocks_needed, options_);
  if (!attention_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // the old blocks go before the new ones come
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size,
                   options_.separate_blocks);
    // A block is copied whole, also the slots that nobody has written. With a value in them, a tool
    // that looks for reads of unwritten memory finds mistakes only.
    if (model_->device() == kv::Device::kCuda) cache_->fill(0, model_->stream());
    attention_.emplace(model_->config(), *cache_);
  }
  manager_.emplace(num_blocks, options_.block_size, [this](std::span<const BlockCopy> copies) {
    copy_blocks({.cache = &*cache_, .copies = copies, .scratch = &copy_scratch_}, model_->stream());
  });
  peak_without_sharing_ = 0;
}

/// Slots for the pass's new tokens, and what the pass then costs in blocks.
void SharingEngine::append_rows(std::span<const Growth> growths, kv::EngineCounters& counters) {
  if (!manager_->append(growths)) throw std::logic_error("the pool was checked to hold this");
  lesson03::BlockTables tables;
  for (const Growth& growth : growths) tables.push_back(&manager_->table(growth.seq));
  attention_->set_tables(std::move(tables));
  note_blocks(counters);
}

void SharingEngine::note_blocks(kv::EngineCounters& counters) {
  const BlockPool& pool = manager_->pool();
  counters.blocks_in_use = std::max<int64_t>(counters.blocks_in_use, pool.num_used());
  counters.blocks_shared = std::max<int64_t>(counters.blocks_shared, pool.num_shared());
  counters.kv_bytes_copied = manager_->num_copies() * cache_->bytes_per_block();
  kv::note_kv_bytes(counters, pool.num_used() * cache_->bytes_per_block(),
                    slots_used(*manager_) * cache_->bytes_per_token());
  peak_without_sharing_ = std::max(peak_without_sharing_, manager_->num_blocks_without_sharing());
}

void SharingEngine::free_all() {
  for (const int seq : sequences_) {
    if (seq >= 0) manager_->free_sequence(seq);
  }
  sequences_.clear();
}

kv::GenerateResult SharingEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  return run(requests, false, on_token);
}

kv::GenerateResult SharingEngine::sample(const kv::Request& request, int n,
                                         const kv::TokenCallback& on_token) {
  if (n < 1) kv::user_error("n: found {}, wanted at least 1 sample", n);
  std::vector<kv::Request> requests(static_cast<size_t>(n), request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].sampling.seed += i;
  return run(requests, true, on_token);
}

/// With `one_prompt` the requests have the same prompt, which only the first one runs.
kv::GenerateResult SharingEngine::run(std::span<const kv::Request> requests, bool one_prompt,
                                      const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(one_prompt ? blocks_needed_by_forks(requests[0], static_cast<int>(requests.size()),
                                                 options_.block_size)
                        : lesson03::blocks_needed(requests, options_.block_size));
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  bool fork_next = one_prompt && generation.any_active();
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool starts = generation.active(i) && (i == 0 || !one_prompt);
    sequences_.push_back(starts ? manager_->add_sequence() : -1);
  }

  while (generation.any_active()) {
    // The tokens that are known but have no slot yet: first the prompts, afterwards one of each.
    kv::PassRows rows;
    std::vector<Growth> growths;
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i) || sequences_[i] < 0) continue;
      const int known = static_cast<int>(generation.tokens(i).size());
      const int computed = manager_->table(sequences_[i]).num_tokens();
      rows.add(i, generation.tokens(i), computed);
      growths.push_back({.seq = sequences_[i], .num_tokens = known - computed});
    }
    append_rows(growths, result.counters);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    if (std::exchange(fork_next, false)) {
      // One row of logits for all samples: each draws its own token from it.
      for (size_t i = 1; i < sequences_.size(); ++i) sequences_[i] = manager_->fork(sequences_[0]);
      note_blocks(result.counters);
      for (size_t i = 0; i < generation.size(); ++i) generation.accept(i, logits);
    } else {
      generation.accept(rows, logits);
    }
    for (size_t i = 0; i < generation.size(); ++i) {
      if (generation.active(i) || sequences_[i] < 0) continue;
      manager_->free_sequence(std::exchange(sequences_[i], -1));  // the blocks serve others now
    }
    timer.end_pass(rows.num_rows(), result);
  }
  result.completions = generation.completions();
  return result;
}

BeamSearchResult SharingEngine::beam_search(const kv::Request& request,
                                            const BeamSearchParams& params,
                                            const BeamCallback& on_step) {
  kv::check_requests({&request, 1}, model_->config());
  kv::check_seq_len_limit({&request, 1}, options_.max_seq_len);
  BeamSearch search(params, request.max_tokens, request.stop_token_ids);
  kv::GenerateResult cost;
  kv::PassTimer timer;
  make_cache(blocks_needed_by_forks(request, params.num_beams, options_.block_size));
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  if (!search.done()) sequences_ = {manager_->add_sequence()};

  bool go_on = true;
  while (go_on && !search.done()) {
    kv::PassRows rows;
    std::vector<Growth> growths;
    for (size_t i = 0; i < search.live().size(); ++i) {
      std::vector<int32_t> tokens = request.prompt;
      tokens.insert(tokens.end(), search.live()[i].tokens.begin(), search.live()[i].tokens.end());
      const int computed = manager_->table(sequences_[i]).num_tokens();
      rows.add(i, tokens, computed);
      growths.push_back(
          {.seq = sequences_[i], .num_tokens = static_cast<int>(tokens.size()) - computed});
    }
    append_rows(growths, cost.counters);
    const std::vector<size_t> parents = search.step(model_->forward(rows, *attention_));

    // Every hypothesis forks the one it continues; then the old ones go. No byte has moved.
    const size_t num_old = sequences_.size();
    sequences_.reserve(num_old + parents.size());
    for (const size_t parent : parents) sequences_.push_back(manager_->fork(sequences_[parent]));
    for (size_t i = 0; i < num_old; ++i) manager_->free_sequence(std::exchange(sequences_[i], -1));
    sequences_.erase(sequences_.begin(), sequences_.begin() + static_cast<std::ptrdiff_t>(num_old));
    note_blocks(cost.counters);
    timer.end_pass(rows.num_rows(), cost);
    go_on = !on_step || on_step(search.live());
  }
  return {.beams = search.best(), .counters = cost.counters, .passes = std::move(cost.passes)};
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<SharingEngine>(model, options);
}

}  // namespace lesson05
