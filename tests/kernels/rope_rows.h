#pragma once

// Rows for qk_norm_rope, and what its CPU twin makes of them.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/qk_norm_rope.h"
#include "tests/kernels/random_floats.h"

namespace kvtest {

struct RopeRows {
  RopeRows(int num_rows, int num_heads, int num_kv_heads, int head_dim, bool normed)
      : rows(num_rows), heads(num_heads), kv_heads(num_kv_heads), dim(head_dim), norm(normed) {
    qkv = random_floats(int64_t{rows} * (heads + 2 * kv_heads) * dim, 7, 2.0f);
    q_weight = random_floats(dim, 8);
    k_weight = random_floats(dim, 9);
    for (int i = 0; i < dim / 2; ++i) {
      inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / dim)));
    }
    for (int row = 0; row < rows; ++row) positions.push_back(row * 37 % 500);
  }

  kv::QkNormRopeArgs args() {
    return {.qkv = qkv.data(),
            .positions = positions.data(),
            .num_rows = rows,
            .num_heads = heads,
            .num_kv_heads = kv_heads,
            .head_dim = dim,
            .q_norm_weight = norm ? q_weight.data() : nullptr,
            .k_norm_weight = norm ? k_weight.data() : nullptr,
            .norm_eps = 1e-6f,
            .inv_freq = inv_freq.data(),
            .q = q.data(),
            .kv = {k.data(), v.data(), slots.empty() ? nullptr : slots.data()}};
  }
  void run() {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    q.assign(static_cast<size_t>(rows * heads * dim), kNaN);
    k.assign(static_cast<size_t>(rows * kv_heads * dim), kNaN);
    v.assign(k.size(), kNaN);
    kv::qk_norm_rope_cpu(args());
  }

  int rows, heads, kv_heads, dim;
  bool norm;
  std::vector<int32_t> positions;
  std::vector<float> qkv, q_weight, k_weight, inv_freq, q, k, v;
  std::vector<int64_t> slots;  // of the rows; empty: row i has slot i
};

}  // namespace kvtest
