#include "engine.h"

#include <algorithm>

#include "attention_tile.h"
#include "common/error.h"
#include "common/generation.h"

namespace lesson01 {

CausalAttention::CausalAttention(const kv::ModelConfig& config, const kv::Stream& stream)
    : num_heads_(config.num_heads),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      stream_(&stream) {
  if (head_dim_ > kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}", head_dim_,
                   kMaxHeadDim);
  }
}

void CausalAttention::begin_pass(std::span<const int32_t> seq_lens) {
  first_row_.assign(1, 0);
  max_seq_len_ = 0;
  for (const int32_t len : seq_lens) {
    first_row_.push_back(first_row_.back() + len);
    max_seq_len_ = std::max(max_seq_len_, len);
  }
  const size_t bytes = first_row_.size() * sizeof(int32_t);
  if (device_first_row_.bytes() < bytes) {
    device_first_row_ = kv::DeviceBuffer(stream_->device(), bytes);
  }
  kv::copy_to_device_async(device_first_row_.data(), first_row_.data(), bytes, *stream_);
}

void CausalAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  causal_attention({.q = rows.q,
                    .k = rows.k,
                    .v = rows.v,
                    .out = rows.out,
                    .first_row = device_first_row_.as<const int32_t>(),
                    .num_seqs = static_cast<int>(first_row_.size()) - 1,
                    .num_rows = rows.num_rows,
                    .max_seq_len = max_seq_len_,
                    .num_heads = num_heads_,
                    .num_kv_heads = num_kv_heads_,
                    .head_dim = head_dim_},
                   stream);
}

NoCacheEngine::NoCacheEngine(kv::Model& model, const kv::EngineOptions& options)
    : model_(&model), options_(options), attention_(model.config(), model.stream()) {}

namespace {

/// The rows of one pass: every active sequence, whole.
struct WholeSequences {
  std::vector<size_t> requests;     // which they are
  std::vector<int32_t> seq_lens;    // their tokens
  std::vector<int32_t> token_ids;   // [rows]
  std::vector<int32_t> positions;   // [rows]
  std::vector<int32_t> logit_rows;  // the last row of each: the only one that predicts anything new
};

WholeSequences compose(const kv::Generation& generation) {
  WholeSequences pass;
  for (size_t i = 0; i < generation.size(); ++i) {
    if (!generation.active(i)) continue;
    const std::span<const int32_t> tokens = generation.tokens(i);
    const auto len = static_cast<int32_t>(tokens.size());
    pass.requests.push_back(i);
    pass.seq_lens.push_back(len);
    pass.token_ids.insert(pass.token_ids.end(), tokens.begin(), tokens.end());
    for (int32_t position = 0; position < len; ++position) pass.positions.push_back(position);
    pass.logit_rows.push_back(static_cast<int32_t>(pass.token_ids.size()) - 1);
  }
  return pass;
}

}  // namespace

kv::GenerateResult NoCacheEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);

  while (generation.any_active()) {
    const WholeSequences pass = compose(generation);
    attention_.begin_pass(pass.seq_lens);
    const std::span<const float> logits = model_->forward(
        {.token_ids = pass.token_ids, .positions = pass.positions, .logit_rows = pass.logit_rows},
        attention_);
    for (size_t i = 0; i < pass.requests.size(); ++i) {
      generation.accept(pass.requests[i], logits.subspan(i * vocab, vocab));
    }
    timer.end_pass(static_cast<int>(pass.token_ids.size()), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<NoCacheEngine>(model, options);
}

}  // namespace lesson01
