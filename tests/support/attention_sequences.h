#pragma once

// Sequences with random Q, K and V for tests of attention kernels. A sequence's values depend on
// its seed alone, so the same one can take part in different passes.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/dtype.h"
#include "kernels/attention/contract.h"
#include "tests/support/device_arrays.h"

namespace kvtest {

struct HeadShape {
  int num_heads;
  int num_kv_heads;
  int head_dim;

  size_t q_width() const { return static_cast<size_t>(num_heads) * static_cast<size_t>(head_dim); }
  size_t kv_width() const {
    return static_cast<size_t>(num_kv_heads) * static_cast<size_t>(head_dim);
  }
};

struct Sequence {
  Sequence(const HeadShape& shape, int length, uint64_t seed) : len(length) {
    const auto tokens = static_cast<size_t>(length);
    const auto n = [&](size_t width) { return static_cast<int64_t>(tokens * width); };
    // Scores with a standard deviation of 2: some keys matter much more than others. In the third
    // tile of a group it is 4.5: there m moves for about half of the queries.
    const float scale = std::sqrt(2.0f);
    q = random_bf16(n(shape.q_width()), 3 * seed, scale);
    k = random_bf16(n(shape.kv_width()), 3 * seed + 1, scale);
    v = random_bf16(n(shape.kv_width()), 3 * seed + 2);
    for (size_t i = 0; i < k.size(); ++i) {
      const size_t tile = i / shape.kv_width() / kv::attention::kTileTokens;
      if (tile % kv::attention::kGroupTiles == 2)
        k[i] = kv::to_bfloat16(2.25f * kv::to_float(k[i]));
    }
  }
  int len;
  std::vector<kv::BFloat16> q;  // [len, num_heads, head_dim]
  std::vector<kv::BFloat16> k;  // [len, num_kv_heads, head_dim]
  std::vector<kv::BFloat16> v;  // [len, num_kv_heads, head_dim]
};

inline std::vector<Sequence> sequences_of(const HeadShape& shape, const std::vector<int>& lengths) {
  std::vector<Sequence> sequences;
  for (const int len : lengths) sequences.emplace_back(shape, len, sequences.size() + 1);
  return sequences;
}

/// Rows of one sequence in bf16, as a kernel wrote them.
using Rows = std::vector<kv::BFloat16>;

inline void append_to(Rows& all, std::span<const kv::BFloat16> part) {
  all.insert(all.end(), part.begin(), part.end());
}

/// The last `num_rows` rows of `width` elements.
inline Rows last_rows(const Rows& rows, int num_rows, size_t width) {
  return {rows.end() - static_cast<std::ptrdiff_t>(static_cast<size_t>(num_rows) * width),
          rows.end()};
}

}  // namespace kvtest
