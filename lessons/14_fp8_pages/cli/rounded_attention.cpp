#include "cli/rounded_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/dtype.h"
#include "kernels/round_kv.h"

namespace lesson14 {
namespace {

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

}  // namespace

std::span<const Way> ways() {
  static const Way kWays[] = {{"fp32", Keep::kFp32},
                              {"bf16", Keep::kBf16},
                              {"FP8, a scale for each token's head", Keep::kTokenAndHead},
                              {"FP8, scale 1", Keep::kOne},
                              {"FP8, the first text's scale", Keep::kFirstTensor},
                              {"FP8, the first text's, for each head", Keep::kFirstHead}};
  return kWays;
}

RoundedAttention::RoundedAttention(const kv::ModelConfig& config, Keep keep, float k_factor)
    : attention_(config), config_(config), keep_(keep), k_factor_(k_factor) {
  const size_t layers = config.num_layers;
  k_scales_.resize(layers);
  v_scales_.resize(layers);
}

void RoundedAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  attention_.begin_pass(rows, arrays);
}

/// Rounds rows of [num_kv_heads, head_dim]; `scales` [num_kv_heads] are made if there are none.
void RoundedAttention::keep_rows(std::vector<float>& rows, std::vector<float>& scales) {
  const size_t heads = config_.num_kv_heads;
  const size_t dim = config_.head_dim;
  if (keep_ == Keep::kFp32) return;
  if (keep_ == Keep::kBf16) {
    for (float& x : rows) x = kv::to_float(kv::to_bfloat16(x));
    return;
  }
  if (scales.empty()) {
    std::vector<float> largest(heads, 0);  // of each head, or of all
    for (size_t i = 0; i < rows.size(); ++i) {
      float& of_head = largest[i / dim % heads];
      of_head = std::max(of_head, std::fabs(rows[i]));
    }
    if (keep_ == Keep::kFirstTensor) largest.assign(heads, largest_of(rows));
    for (const float x : largest) scales.push_back(keep_ == Keep::kOne ? 1 : x / kv::kMaxE4m3);
  }
  for (size_t at = 0; at < rows.size(); at += dim) {
    const std::span head(&rows[at], dim);
    const float scale =
        keep_ == Keep::kTokenAndHead ? kv::e4m3_scale(largest_of(head)) : scales[at / dim % heads];
    for (float& x : head) x = kv::round_to_e4m3(x, scale);
  }
}

void RoundedAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const auto copy = [&](const void* from, int width, float factor, std::vector<float>& to) {
    const auto* const begin = static_cast<const float*>(from);
    to.assign(begin, begin + int64_t{rows.num_rows} * width);
    for (float& x : to) x *= factor;
  };
  copy(rows.q, config_.q_width(), 1 / k_factor_, q_);
  copy(rows.k, config_.kv_width(), k_factor_, k_);
  copy(rows.v, config_.kv_width(), 1, v_);
  largest_k_ = std::max(largest_k_, largest_of(k_));
  largest_v_ = std::max(largest_v_, largest_of(v_));
  const size_t layer = rows.layer;
  keep_rows(k_, k_scales_[layer]);
  keep_rows(v_, v_scales_[layer]);
  kv::AttentionRows kept = rows;
  kept.q = q_.data();
  kept.k = k_.data();
  kept.v = v_.data();
  attention_.forward(kept, stream);
}

void Distance::add(std::span<const float> logits, std::span<const float> exact,
                   std::span<const int32_t> tokens) {
  const size_t vocab = logits.size() / tokens.size();
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const auto mine = logits.subspan(t * vocab, vocab), theirs = exact.subspan(t * vocab, vocab);
    double sum = 0;
    const float most = *std::ranges::max_element(mine);
    for (size_t i = 0; i < vocab; ++i) {
      const double error = double{mine[i]} - double{theirs[i]};
      squared_error += error * error;
      squared += double{theirs[i]} * double{theirs[i]};
      sum += std::exp(double{mine[i]} - double{most});
    }
    const size_t next = tokens[t + 1];
    log_probability += double{mine[next]} - double{most} - std::log(sum);
    num_same += std::ranges::max_element(mine) - mine.begin() ==
                std::ranges::max_element(theirs) - theirs.begin();
    ++num_tokens;
  }
}

double Distance::relative_error() const { return std::sqrt(squared_error / squared); }
double Distance::perplexity() const {
  return std::exp(-log_probability / static_cast<double>(num_tokens));
}

std::vector<float> logits_of(kv::Model& model, kv::Attention& attention,
                             std::span<const int32_t> tokens) {
  kv::PassRows rows;
  rows.add(0, tokens, 0);
  rows.logit_rows.resize(tokens.size());
  std::iota(rows.logit_rows.begin(), rows.logit_rows.end(), 0);
  const std::span<const float> logits = model.forward(rows, attention);
  return {logits.begin(), logits.end()};
}

}  // namespace lesson14
