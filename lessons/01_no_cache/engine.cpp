#include "engine.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/model/generation.h"
#include "kernels/attention/contract.h"

namespace lesson01 {

CausalAttention::CausalAttention(const kv::ModelConfig& config, const kv::Stream& stream)
    : num_heads_(config.num_heads),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      stream_(&stream) {
  if (head_dim_ > kv::attention::kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}", head_dim_,
                   kv::attention::kMaxHeadDim);
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
  fast_causal_attention({.q = rows.q,
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

kv::GenerateResult NoCacheEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  rows_of_passes_.clear();

  while (generation.any_active()) {
    kv::PassRows rows;  // every active sequence, whole
    std::vector<int32_t> seq_lens;
    for (size_t i = 0; i < generation.size(); ++i) {
      if (!generation.active(i)) continue;
      rows.add(i, generation.tokens(i), 0);
      seq_lens.push_back(static_cast<int32_t>(generation.tokens(i).size()));
    }
    rows_of_passes_.push_back(rows.num_rows());
    attention_.begin_pass(seq_lens);
    generation.accept(rows, model_->forward(rows.pass(), attention_));
    timer.end_pass(rows.num_rows(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options) {
  return std::make_unique<NoCacheEngine>(model, options);
}

}  // namespace lesson01
