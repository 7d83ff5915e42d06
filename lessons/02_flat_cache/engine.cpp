#include "engine.h"

#include <algorithm>

#include "qwen3/generation.h"

namespace lesson02 {

DecodeAttentionArgs sizes_of(const kv::PassRows& rows, const kv::ModelConfig& config) {
  return {.num_seqs = rows.num_seqs(),
          .num_rows = rows.num_rows(),
          .max_rows_per_seq = rows.max_rows_per_seq(),
          .max_seq_len = rows.max_seq_len(),
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim};
}

void FlatAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  std::vector<int32_t> row_seq;
  std::vector<int64_t> slab_begin;
  for (int seq = 0; seq < rows.num_seqs(); ++seq) {
    const int slab = slab_of(rows, seq), num_rows = rows.num_rows_of(seq);
    cache_->check_room(slab, num_rows);
    slab_begin.push_back(cache_->slab_begin(slab));
    row_seq.insert(row_seq.end(), num_rows, seq);
  }
  args_ = sizes_of(rows, config_);
  args_.workspace = arrays.workspace(decode_attention_workspace_bytes(args_));
  arrays.add(row_seq, row_seq_);
  arrays.add(slab_begin, args_.slab_begin);
  if (args_.max_rows_per_seq == 1) arrays.allow_replay();
}

DecodeAttentionArgs FlatAttention::args_of(const kv::AttentionRows& rows) const {
  DecodeAttentionArgs args = args_;
  args.q = rows.q;
  args.k_cache = cache_->k_layer(rows.layer);
  args.v_cache = cache_->v_layer(rows.layer);
  args.num_slots = cache_->num_slots();
  args.out = rows.out;
  args.first_row = rows.first_row;
  args.seq_len = rows.seq_len;
  args.window = rows.window;
  return args;
}

void FlatAttention::append(const kv::AttentionRows& rows, const kv::Stream& stream) const {
  append_kv({.k = rows.k,
             .v = rows.v,
             .row_seq = row_seq_,
             .row_position = rows.positions,
             .slab_begin = args_.slab_begin,
             .num_rows = rows.num_rows,
             .row_elements = config_.kv_width(),
             .k_cache = cache_->k_layer(rows.layer),
             .v_cache = cache_->v_layer(rows.layer)},
            stream);
}

void FlatAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  append(rows, stream);
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? decode_attention : fast_decode_attention)(args_of(rows), stream);
}

void FlatAttention::end_pass(const kv::PassRows& rows) {
  for (int seq = 0; seq < rows.num_seqs(); ++seq) {
    cache_->advance(slab_of(rows, seq), rows.num_rows_of(seq));
  }
}

/// Slots of a slab. If options_.max_seq_len is set, no request that is served needs more.
int FlatCacheEngine::max_seq_len(std::span<const kv::Request> requests) const {
  int64_t slots = std::max(options_.max_seq_len, 1);
  for (const kv::Request& r : requests) slots = std::max(slots, kv::tokens_to_compute(r));
  return static_cast<int>(slots);
}

void FlatCacheEngine::make_cache(std::span<const kv::Request> requests) {
  const auto batch = static_cast<int>(requests.size());
  const int max_seq_len = this->max_seq_len(requests);
  if (!cache_ || cache_->batch() != batch || cache_->max_seq_len() != max_seq_len) {
    attention_.reset();
    cache_.reset();  // frees the old slabs before the new ones are allocated
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
    kv::PassRows rows;  // tokens not computed yet: the prompts at first, then one per request
    for (size_t i = 0; i < generation.size(); ++i) {
      const int computed = cache_->position(static_cast<int>(i));
      if (generation.active(i)) rows.add(i, generation.tokens(i), computed);
    }
    const std::span<const float> logits = model_->forward(rows, *attention_);
    attention_->end_pass(rows);
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
