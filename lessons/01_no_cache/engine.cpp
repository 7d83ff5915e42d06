#include "engine.h"

#include "qwen3/generation.h"

namespace lesson01 {

CausalAttention::CausalAttention(const kv::ModelConfig& config)
    : num_heads_(config.num_heads),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim) {}

void CausalAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays&) {
  max_seq_len_ = rows.max_rows_per_seq();  // all tokens of a sequence are rows
}

void CausalAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const CausalAttentionArgs args{.q = rows.q,
                                 .k = rows.k,
                                 .v = rows.v,
                                 .out = rows.out,
                                 .first_row = rows.first_row,
                                 .num_seqs = rows.num_seqs,
                                 .num_rows = rows.num_rows,
                                 .max_seq_len = max_seq_len_,
                                 .num_heads = num_heads_,
                                 .num_kv_heads = num_kv_heads_,
                                 .head_dim = head_dim_,
                                 .window = rows.window};
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? causal_attention : fast_causal_attention)(args, stream);
}

NoCacheEngine::NoCacheEngine(kv::Model& model, const kv::EngineOptions& options)
    : model_(&model), options_(options), attention_(model.config()) {}

kv::GenerateResult NoCacheEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  rows_of_passes_.clear();

  while (generation.any_active()) {
    kv::PassRows rows;  // every active sequence, whole
    for (size_t i = 0; i < generation.size(); ++i) {
      if (generation.active(i)) rows.add(i, generation.tokens(i), 0);
    }
    rows_of_passes_.push_back(rows.num_rows());
    generation.accept(rows, model_->forward(rows, attention_));
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<NoCacheEngine>(model, options);
}

}  // namespace lesson01
