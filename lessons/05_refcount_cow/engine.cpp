#include "engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "copy_blocks.h"

namespace lesson05 {

/// The rows of a pass, and the slots that they need.
struct SharingEngine::Pass {
  kv::PassRows rows;
  std::vector<Growth> growths;
};

namespace {

/// Blocks that `n` continuations of one prompt fill when each has reached its end: the prompt's
/// full blocks once, all else n times.
int64_t blocks_needed_by_forks(const kv::Request& request, int n, int block_size) {
  const int64_t tokens = kv::tokens_to_compute(request);
  if (tokens == 0) return 0;
  const int64_t shared = static_cast<int64_t>(request.prompt.size()) / block_size;
  return shared + n * ((tokens + block_size - 1) / block_size - shared);
}

}  // namespace

SharingEngine::SharingEngine(kv::Model& model, const lesson03::PagedOptions& options)
    : model_(&model), options_(options) {
  lesson03::check(options);
}

void SharingEngine::make_cache(int64_t blocks_needed) {
  const int num_blocks = lesson03::num_blocks_for(blocks_needed, options_);
  if (!attention_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // the old blocks go before the new ones come
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
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

/// The tokens of sequence i that have no slot yet: first its prompt, afterwards one at a time.
void SharingEngine::add_rows(Pass& pass, size_t i, std::span<const int32_t> tokens) const {
  const int computed = manager_->table(sequences_[i]).num_tokens();
  pass.rows.add(i, tokens, computed);
  pass.growths.push_back(
      {.seq = sequences_[i], .num_tokens = static_cast<int>(tokens.size()) - computed});
}

std::span<const float> SharingEngine::forward(const Pass& pass, kv::EngineCounters& counters) {
  if (!manager_->append(pass.growths)) throw std::logic_error("the pool was checked to hold this");
  note_blocks(counters);
  // A shared block is full now, so every empty slot is in a block that one sequence has for itself.
  int64_t num_slots = int64_t{manager_->pool().num_used()} * options_.block_size;
  lesson03::BlockTables tables;
  for (const Growth& growth : pass.growths) {
    const BlockTable& table = manager_->table(growth.seq);
    num_slots -= options_.block_size - table.last_block_fill();
    tables.push_back(&table);
  }
  kv::note_kv_bytes(counters, manager_->pool().num_used() * cache_->bytes_per_block(),
                    num_slots * cache_->bytes_per_token());
  attention_->set_tables(std::move(tables));
  return model_->forward(pass.rows, *attention_);
}

/// From now on sequence i continues what sequence parents[i] was: each forks its parent, then the
/// old ones go. No byte moves.
void SharingEngine::continue_from(std::span<const size_t> parents, kv::EngineCounters& counters) {
  std::vector<int> next;
  for (const size_t parent : parents) next.push_back(manager_->fork(sequences_[parent]));
  for (const int seq : sequences_) manager_->free_sequence(seq);
  sequences_ = std::move(next);
  note_blocks(counters);
}

void SharingEngine::note_blocks(kv::EngineCounters& counters) {
  const BlockPool& pool = manager_->pool();
  const auto note_peak = [&](const char* name, int64_t now) {
    int64_t& peak = counters.by_name[name];
    peak = std::max(peak, now);
  };
  note_peak("blocks_in_use", pool.num_used());
  note_peak("blocks_shared", pool.num_shared());
  counters.kv_bytes_copied = manager_->num_copies() * cache_->bytes_per_block();
  peak_without_sharing_ = std::max(peak_without_sharing_, pool.num_references());
}

void SharingEngine::free_all() {
  while (!manager_->tables().empty()) manager_->free_sequence(manager_->tables().begin()->first);
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
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(one_prompt ? blocks_needed_by_forks(requests[0], static_cast<int>(requests.size()),
                                                 options_.block_size)
                        : lesson03::blocks_needed(requests, options_.block_size));
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  for (size_t i = 0; i < (one_prompt ? 1 : requests.size()); ++i) {
    sequences_.push_back(generation.active(i) ? manager_->add_sequence() : -1);
  }
  while (generation.any_active()) {
    Pass pass;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (sequences_[i] >= 0) add_rows(pass, i, generation.tokens(i));
    }
    const std::span<const float> logits = forward(pass, result.counters);
    if (sequences_.size() < requests.size()) {
      // One row of logits for all samples: each draws its own token from it.
      continue_from(std::vector<size_t>(requests.size(), 0), result.counters);
      for (size_t i = 0; i < requests.size(); ++i) generation.accept(i, logits);
    } else {
      generation.accept(pass.rows, logits);
    }
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (generation.active(i) || sequences_[i] < 0) continue;
      manager_->free_sequence(std::exchange(sequences_[i], -1));  // the blocks serve others now
    }
    timer.end_pass(pass.rows.num_rows(), result);
  }
  result.completions = generation.completions();
  return result;
}

BeamSearchResult SharingEngine::beam_search(const kv::Request& request,
                                            const kv::BeamSearchParams& params,
                                            const BeamCallback& on_step) {
  kv::check_requests({&request, 1}, model_->config());
  kv::check_seq_len_limit({&request, 1}, options_.engine.max_seq_len);
  kv::BeamSearch search(params, request.max_tokens, request.stop_token_ids);
  BeamSearchResult result;
  kv::PassTimer timer;
  make_cache(blocks_needed_by_forks(request, params.num_beams, options_.block_size));
  const kv::AtEnd free_blocks{[this] { free_all(); }};
  if (!search.done()) sequences_ = {manager_->add_sequence()};

  for (bool go_on = true; go_on && !search.done();) {
    Pass pass;
    for (size_t i = 0; i < search.live().size(); ++i) {
      std::vector<int32_t> tokens = request.prompt;
      tokens.insert(tokens.end(), search.live()[i].tokens.begin(), search.live()[i].tokens.end());
      add_rows(pass, i, tokens);
    }
    const std::vector<size_t> parents = search.step(forward(pass, result.counters));
    continue_from(parents, result.counters);
    timer.end_pass(pass.rows.num_rows(), result);
    go_on = !on_step || on_step(search.live());
  }
  result.beams = search.best();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<SharingEngine>(model, options);
}

}  // namespace lesson05
