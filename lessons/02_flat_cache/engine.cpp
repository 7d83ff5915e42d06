#include "engine.h"

#include <algorithm>
#include <vector>

#include "common/generation.h"

namespace lesson02 {

FlatCacheEngine::FlatCacheEngine(kv::Model& model, const kv::EngineOptions& options)
    : model_(&model), options_(options) {}

void FlatCacheEngine::make_cache(std::span<const kv::Request> requests) {
  const auto batch = static_cast<int>(requests.size());
  int64_t longest = 1;
  for (const kv::Request& request : requests) {
    longest = std::max(longest, kv::tokens_to_compute(request));
  }
  const int max_seq_len =
      options_.max_seq_len > 0 ? options_.max_seq_len : static_cast<int>(longest);
  if (!cache_ || cache_->batch() != batch || cache_->max_seq_len() != max_seq_len) {
    attention_.reset();
    cache_.reset();  // the old slabs go before the new ones come
    cache_.emplace(model_->config(), model_->device(), batch, max_seq_len);
    attention_.emplace(model_->config(), model_->stream(), *cache_);
  }
  for (int slab = 0; slab < batch; ++slab) cache_->clear(slab);
}

namespace {

/// The rows of one pass: for every active sequence, the tokens that are known but not computed. In
/// the first pass these are the prompts, afterwards one token each.
struct NewTokens {
  std::vector<size_t> requests;     // which they are; request i lives in slab i
  std::vector<SlabRows> sequences;  // their rows
  std::vector<int32_t> token_ids;   // [rows]
  std::vector<int32_t> positions;   // [rows]
  std::vector<int32_t> logit_rows;  // the last row of each sequence
};

NewTokens compose(const kv::Generation& generation, const FlatKvCache& cache) {
  NewTokens pass;
  for (size_t i = 0; i < generation.size(); ++i) {
    if (!generation.active(i)) continue;
    const int slab = static_cast<int>(i);
    const std::span<const int32_t> tokens = generation.tokens(i);
    const int known = static_cast<int>(tokens.size());
    const int computed = cache.position(slab);
    pass.requests.push_back(i);
    pass.sequences.push_back({.slab = slab, .num_rows = known - computed});
    pass.token_ids.insert(pass.token_ids.end(), tokens.begin() + computed, tokens.end());
    for (int position = computed; position < known; ++position) pass.positions.push_back(position);
    pass.logit_rows.push_back(static_cast<int32_t>(pass.token_ids.size()) - 1);
  }
  return pass;
}

}  // namespace

kv::GenerateResult FlatCacheEngine::generate(std::span<const kv::Request> requests,
                                             const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  kv::note_kv_bytes(result.counters, cache_->bytes_reserved(), cache_->bytes_used());
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);

  while (generation.any_active()) {
    const NewTokens pass = compose(generation, *cache_);
    attention_->begin_pass(pass.sequences);
    const std::span<const float> logits = model_->forward(
        {.token_ids = pass.token_ids, .positions = pass.positions, .logit_rows = pass.logit_rows},
        *attention_);
    attention_->end_pass();
    kv::note_kv_bytes(result.counters, cache_->bytes_reserved(), cache_->bytes_used());
    for (size_t i = 0; i < pass.requests.size(); ++i) {
      generation.accept(pass.requests[i], logits.subspan(i * vocab, vocab));
    }
    timer.end_pass(static_cast<int>(pass.token_ids.size()), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<FlatCacheEngine>(model, options);
}

}  // namespace lesson02
