#pragma once

// The plainest attention there is, for tests of the model: the rows of a pass are whole sequences,
// one after the other, and every query walks over the keys of its own sequence in double precision.
// CPU only.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "qwen3/attention.h"
#include "qwen3/config.h"
#include "tests/support/naive_attention.h"

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
    const auto at = [dim](const void* base, int r, int num_heads, int h) {
      return static_cast<const float*>(base) + (int64_t{r} * num_heads + h) * dim;
    };
    const std::vector<double> sum = naive_attention(
        at(rows.q, row, config_.num_heads, head), at(rows.k, first, config_.num_kv_heads, kv_head),
        at(rows.v, first, config_.num_kv_heads, kv_head), row - first + 1,
        static_cast<size_t>(config_.kv_width()), dim);
    std::ranges::transform(
        sum, static_cast<float*>(rows.out) + (int64_t{row} * config_.num_heads + head) * dim,
        [](double x) { return static_cast<float>(x); });
  }

  kv::ModelConfig config_;
  std::vector<int32_t> seq_lens_;
};

}  // namespace kvtest
