#pragma once

// The whole model as plain loops in double precision, from the tensors of a random model. It shares
// no code with the forward pass it checks.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/random_model.h"

namespace kvtest {

using Rows = std::vector<std::vector<double>>;

class ReferenceForward {
 public:
  /// `tensors` with separate q, k, v, gate and up.
  ReferenceForward(const RandomModel& model, const Tensors& tensors)
      : m_(model), tensors_(tensors) {}

  /// Logits of every token of one sequence.
  Rows logits(const std::vector<int32_t>& tokens) const {
    const std::vector<double> embedding = values(m_.prefix + "embed_tokens.weight");
    const size_t hidden = static_cast<size_t>(m_.hidden_size);
    Rows x;
    for (const int32_t t : tokens) {
      const auto begin =
          embedding.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(t) * hidden);
      x.emplace_back(begin, begin + m_.hidden_size);
    }
    for (int layer = 0; layer < m_.num_layers; ++layer) run_layer(layer, x);
    x = norm(x, m_.prefix + "norm.weight");
    return times(x, m_.tied ? m_.prefix + "embed_tokens.weight" : "lm_head.weight");
  }

 private:
  void run_layer(int layer, Rows& x) const {
    const std::string at = m_.prefix + "layers." + std::to_string(layer) + ".";
    const Rows in = norm(x, at + "input_layernorm.weight");
    const std::string self = at + "self_attn.";
    const Rows q = heads(times(in, self + "q_proj.weight"), self + "q_norm.weight");
    const Rows k = heads(times(in, self + "k_proj.weight"), self + "k_norm.weight");
    add(x, times(attention(q, k, times(in, self + "v_proj.weight")), self + "o_proj.weight"));

    const Rows mlp_in = norm(x, at + "post_attention_layernorm.weight");
    Rows gate = times(mlp_in, at + "mlp.gate_proj.weight");
    const Rows up = times(mlp_in, at + "mlp.up_proj.weight");
    for (size_t r = 0; r < gate.size(); ++r) {
      for (size_t i = 0; i < gate[r].size(); ++i) {
        gate[r][i] = gate[r][i] / (1 + std::exp(-gate[r][i])) * up[r][i];
      }
    }
    add(x, times(gate, at + "mlp.down_proj.weight"));
  }

  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const size_t dim = static_cast<size_t>(m_.head_dim);
    const size_t group = static_cast<size_t>(m_.num_heads / m_.num_kv_heads);
    Rows out(q.size(), std::vector<double>(q[0].size(), 0.0));
    for (size_t r = 0; r < q.size(); ++r) {
      for (size_t h = 0; h < static_cast<size_t>(m_.num_heads); ++h) {
        const size_t from = h / group * dim;
        double total = 0;
        for (size_t t = 0; t <= r; ++t) {
          double score = 0;
          for (size_t i = 0; i < dim; ++i) score += q[r][h * dim + i] * k[t][from + i];
          const double weight = std::exp(score / std::sqrt(m_.head_dim));
          for (size_t i = 0; i < dim; ++i) out[r][h * dim + i] += weight * v[t][from + i];
          total += weight;
        }
        for (size_t i = 0; i < dim; ++i) out[r][h * dim + i] /= total;
      }
    }
    return out;
  }

  /// QK-norm and RoPE of every head; the row is the position.
  Rows heads(const Rows& x, const std::string& norm_name) const {
    const std::vector<double> weight = values(norm_name);
    const size_t dim = weight.size();
    Rows out = x;
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t at = 0; at < x[r].size(); at += dim) {
        double sum = 0;
        for (size_t i = 0; i < dim; ++i) sum += x[r][at + i] * x[r][at + i];
        const double scale = 1 / std::sqrt(sum / static_cast<double>(dim) + 1e-6);
        for (size_t i = 0; i < dim / 2; ++i) {
          const double angle =
              static_cast<double>(r) *
              std::pow(m_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
          const double a = x[r][at + i] * scale * weight[i];
          const double b = x[r][at + i + dim / 2] * scale * weight[i + dim / 2];
          out[r][at + i] = a * std::cos(angle) - b * std::sin(angle);
          out[r][at + i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
    return out;
  }

  Rows norm(const Rows& x, const std::string& name) const {
    const std::vector<double> weight = values(name);
    Rows out = x;
    for (size_t r = 0; r < x.size(); ++r) {
      double sum = 0;
      for (const double v : x[r]) sum += v * v;
      const double scale = 1 / std::sqrt(sum / static_cast<double>(x[r].size()) + 1e-6);
      for (size_t i = 0; i < x[r].size(); ++i) out[r][i] = x[r][i] * scale * weight[i];
    }
    return out;
  }

  Rows times(const Rows& x, const std::string& name) const {
    const std::vector<double> w = values(name);
    const size_t k = x[0].size();
    Rows out(x.size(), std::vector<double>(w.size() / k, 0.0));
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t n = 0; n < out[r].size(); ++n) {
        for (size_t i = 0; i < k; ++i) out[r][n] += x[r][i] * w[n * k + i];
      }
    }
    return out;
  }

  static void add(Rows& x, const Rows& y) {
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  }

  std::vector<double> values(const std::string& name) const {
    const OwnedTensor& t = tensors_.at(name);
    std::vector<double> out;
    for (size_t i = 0; i < t.bytes.size(); i += t.dtype == "F32" ? 4 : 2) {
      uint32_t bits = 0;
      std::memcpy(&bits, &t.bytes[i], t.dtype == "F32" ? 4 : 2);
      const auto half = static_cast<uint16_t>(bits);
      out.push_back(static_cast<double>(t.dtype == "F32"   ? std::bit_cast<float>(bits)
                                        : t.dtype == "F16" ? kv::to_float(kv::Half{half})
                                                           : kv::to_float(kv::BFloat16{half})));
    }
    return out;
  }

  RandomModel m_;
  const Tensors& tensors_;
};

}  // namespace kvtest
