#pragma once

// The plainest attention there is, for tests of the model: the rows of a pass are whole sequences,
// one after the other, and every query walks over the keys of its own sequence in double precision.
// CPU only.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/model/attention.h"
#include "common/model/config.h"

namespace kvtest {

class PlainAttention : public kv::Attention {
 public:
  explicit PlainAttention(const kv::ModelConfig& config) : config_(config) {}

  void begin_pass(const kv::PassRows& rows, kv::PassArrays&) override { seq_lens_ = rows.seq_len; }

  void forward(const kv::AttentionRows& rows, const kv::Stream&) override {
    layers_seen.push_back(rows.layer);
    int first = 0;
    for (const int len : seq_lens_) {
      for (int row = first; row < first + len; ++row) {
        for (int head = 0; head < config_.num_heads; ++head) attend(rows, first, row, head);
      }
      first += len;
    }
  }

  std::vector<int> layers_seen;

 private:
  void attend(const kv::AttentionRows& rows, int first, int row, int head) const {
    const int dim = config_.head_dim;
    const int kv_head = head / (config_.num_heads / config_.num_kv_heads);
    const auto at = [&](const void* base, int r, int num_heads, int h) {
      return static_cast<const float*>(base) + (int64_t{r} * num_heads + h) * dim;
    };
    const float* q = at(rows.q, row, config_.num_heads, head);
    std::vector<double> scores;
    double largest = -1e300;
    for (int t = first; t <= row; ++t) {
      const float* k = at(rows.k, t, config_.num_kv_heads, kv_head);
      double dot = 0;
      for (int i = 0; i < dim; ++i) dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
      scores.push_back(dot / std::sqrt(dim));
      largest = std::max(largest, scores.back());
    }
    double total = 0;
    std::vector<double> sum(static_cast<size_t>(dim), 0.0);
    for (int t = first; t <= row; ++t) {
      const double weight = std::exp(scores[static_cast<size_t>(t - first)] - largest);
      const float* v = at(rows.v, t, config_.num_kv_heads, kv_head);
      for (int i = 0; i < dim; ++i)
        sum[static_cast<size_t>(i)] += weight * static_cast<double>(v[i]);
      total += weight;
    }
    float* out = static_cast<float*>(rows.out) + (int64_t{row} * config_.num_heads + head) * dim;
    for (int i = 0; i < dim; ++i) out[i] = static_cast<float>(sum[static_cast<size_t>(i)] / total);
  }

  kv::ModelConfig config_;
  std::vector<int32_t> seq_lens_;
};

}  // namespace kvtest
