#include "engine.h"

#include <algorithm>
#include <vector>

#include "common/model/generation.h"

namespace lesson02 {

FlatCacheEngine::FlatCacheEngine(kv::Model& model, const kv::EngineOptions& options)
    : model_(&model), options_(options) {}

/// Slots of a slab.
int FlatCacheEngine::max_seq_len(std::span<const kv::Request> requests) const {
  if (options_.max_seq_len > 0) return options_.max_seq_len;
  int64_t longest = 1;
  for (const kv::Request& request : requests) {
    longest = std::max(longest, kv::tokens_to_compute(request));
  }
  return static_cast<int>(longest);
}

int64_t FlatCacheEngine::slots_to_start(std::span<const kv::Request> requests) const {
  return std::ssize(requests) * max_seq_len(requests);
}

void FlatCacheEngine::make_cache(std::span<const kv::Request> requests) {
  const auto batch = static_cast<int>(requests.size());
  const int max_seq_len = this->max_seq_len(requests);
  if (!cache_ || cache_->batch() != batch || cache_->max_seq_len() != max_seq_len) {
    attention_.reset();
    cache_.reset();  // the old slabs go before the new ones come
    cache_.emplace(model_->config(), model_->device(), batch, max_seq_len);
    attention_.emplace(model_->config(), *cache_);
  }
  for (int slab = 0; slab < batch; ++slab) cache_->clear(slab);
}

kv::GenerateResult FlatCacheEngine::generate(std::span<const kv::Request> requests,
                                             const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  make_cache(requests);
  kv::note_kv_bytes(result.counters, cache_->bytes_reserved(), cache_->bytes_used());

  while (generation.any_active()) {
    // The tokens that are known but not computed: first the prompts, afterwards one of each.
    kv::PassRows rows;
    std::vector<int32_t> slabs;  // request i lives in slab i
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i)) continue;
      slabs.push_back(static_cast<int32_t>(i));
      rows.add(i, generation.tokens(i), cache_->position(slabs.back()));
    }
    attention_->set_slabs(slabs);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    attention_->end_pass();
    kv::note_kv_bytes(result.counters, cache_->bytes_reserved(), cache_->bytes_used());
    generation.accept(rows, logits);
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<FlatCacheEngine>(model, options);
}

}  // namespace lesson02
