#pragma once

// Attention as the textbook writes it, in double: the reference that the kernels are compared with.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace kvtest {

inline std::vector<float> random_floats(std::mt19937_64& rng, size_t n, float std = 1.0f) {
  std::normal_distribution<float> normal(0.0f, std);
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

/// One query head against keys 0 .. num_keys - 1. Rows of K and V are `stride` elements apart.
inline std::vector<double> naive_attention(const float* q, const float* k, const float* v,
                                           int num_keys, size_t stride, int head_dim) {
  const auto dim = static_cast<size_t>(head_dim);
  std::vector<double> score(static_cast<size_t>(num_keys), 0.0);
  for (size_t t = 0; t < score.size(); ++t) {
    for (size_t d = 0; d < dim; ++d) score[t] += double{q[d]} * double{k[t * stride + d]};
    score[t] /= std::sqrt(static_cast<double>(head_dim));
  }
  const double largest = score.empty() ? 0.0 : *std::max_element(score.begin(), score.end());
  double sum = 0.0;
  for (double& s : score) sum += (s = std::exp(s - largest));
  std::vector<double> out(dim, 0.0);
  for (size_t t = 0; t < score.size(); ++t) {
    for (size_t d = 0; d < dim; ++d) out[d] += score[t] / sum * double{v[t * stride + d]};
  }
  return out;
}

}  // namespace kvtest
