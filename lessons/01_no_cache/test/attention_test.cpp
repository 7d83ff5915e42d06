// Tests of lesson 01: attention against the textbook, the arithmetic contract, and the engine.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "causal_attention.h"
#include "common/base/error.h"
#include "common/base/parallel.h"
#include "engine.h"
#include "kernels/attention/attend.h"
#include "tests/support/naive_attention.h"

namespace {

using kvtest::max_error;
using kvtest::naive_attention;
using kvtest::random_floats;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A pass of whole sequences with random Q, K and V.
struct CausalCase {
  CausalCase(std::vector<int> lens, int heads, int kv_heads, int dim, uint64_t seed)
      : num_heads(heads), num_kv_heads(kv_heads), head_dim(dim) {
    for (const int len : lens) first_row.push_back(first_row.back() + len);
    max_seq_len = *std::max_element(lens.begin(), lens.end());
    std::mt19937_64 rng(seed);
    q = random_floats(rng, size_of_rows(num_heads));
    k = random_floats(rng, size_of_rows(num_kv_heads));
    v = random_floats(rng, size_of_rows(num_kv_heads));
  }
  int num_rows() const { return first_row.back(); }
  size_t size_of_rows(int heads) const {
    return static_cast<size_t>(num_rows() * heads * head_dim);
  }

  std::vector<float> run() const {
    std::vector<float> out(q.size(), kNaN);  // what is not written stays visible
    lesson01::fast_causal_attention_cpu({.q = q.data(),
                                         .k = k.data(),
                                         .v = v.data(),
                                         .out = out.data(),
                                         .first_row = first_row.data(),
                                         .num_seqs = static_cast<int>(first_row.size()) - 1,
                                         .num_rows = num_rows(),
                                         .max_seq_len = max_seq_len,
                                         .num_heads = num_heads,
                                         .num_kv_heads = num_kv_heads,
                                         .head_dim = head_dim});
    return out;
  }

  /// The same rows as `this`, of one sequence alone.
  CausalCase only(size_t seq) const {
    CausalCase one({first_row[seq + 1] - first_row[seq]}, num_heads, num_kv_heads, head_dim, 0);
    const auto cut = [&](const std::vector<float>& all, int heads, std::vector<float>& part) {
      std::copy_n(all.begin() + first_row[seq] * heads * head_dim, part.size(), part.begin());
    };
    cut(q, num_heads, one.q);
    cut(k, num_kv_heads, one.k);
    cut(v, num_kv_heads, one.v);
    return one;
  }

  std::vector<int32_t> first_row{0};
  int max_seq_len = 0;
  int num_heads, num_kv_heads, head_dim;
  std::vector<float> q, k, v;
};

std::vector<float> rows_of(const std::vector<float>& all, size_t begin, size_t size) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + size)};
}

}  // namespace

TEST_CASE("attention is softmax of QK over the square root of head_dim times V") {
  // fp32 sums of at most 300 terms with exp in between: 2e-6 is about 17 units in the last place of
  // outputs below 1; a wrong mask, head or scale gives errors over 1e-2.
  constexpr double kTolerance = 2e-6;
  const std::vector<int> lens{1, 2, 63, 64, 65, 130, 255, 256, 257, 300};
  const struct {
    int heads, kv_heads, head_dim;
  } shapes[] = {{8, 8, 64}, {4, 2, 80}, {8, 2, 32}, {8, 1, 128},
                {2, 1, 20}, {3, 1, 7},  {2, 2, 256}};
  for (const auto& shape : shapes) {
    CAPTURE(shape.heads);
    CAPTURE(shape.head_dim);
    const CausalCase pass(lens, shape.heads, shape.kv_heads, shape.head_dim, 1);
    const std::vector<float> out = pass.run();
    const auto dim = static_cast<size_t>(shape.head_dim);
    const size_t stride = static_cast<size_t>(shape.kv_heads) * dim;
    double worst = 0;
    for (size_t seq = 0; seq < lens.size(); ++seq) {
      for (int t = 0; t < lens[seq]; ++t) {
        for (int head = 0; head < shape.heads; ++head) {
          const auto row = static_cast<size_t>(pass.first_row[seq] + t);
          const size_t at =
              (row * static_cast<size_t>(shape.heads) + static_cast<size_t>(head)) * dim;
          const auto kv_head = static_cast<size_t>(head / (shape.heads / shape.kv_heads));
          const size_t kv_at = static_cast<size_t>(pass.first_row[seq]) * stride + kv_head * dim;
          const double error = max_error(
              {&out[at], dim}, naive_attention(&pass.q[at], &pass.k[kv_at], &pass.v[kv_at], t + 1,
                                               stride, shape.head_dim));
          if (!(error <= worst)) worst = error;
        }
      }
    }
    CHECK(worst <= kTolerance);
  }
}

TEST_CASE("a sequence gives the same bits alone and in any batch") {
  const CausalCase batch({5, 70, 1, 300, 64}, 4, 2, 32, 2);
  const std::vector<float> together = batch.run();
  const size_t row = static_cast<size_t>(batch.num_heads * batch.head_dim);
  for (size_t seq = 0; seq + 1 < batch.first_row.size(); ++seq) {
    CAPTURE(seq);
    const auto begin = static_cast<size_t>(batch.first_row[seq]) * row;
    const auto end = static_cast<size_t>(batch.first_row[seq + 1]) * row;
    CHECK(batch.only(seq).run() == rows_of(together, begin, end - begin));
  }
}

TEST_CASE("the number of threads changes no bit") {
  const CausalCase pass({90, 33}, 6, 3, 48, 3);
  const int before = kv::num_threads();
  kv::set_num_threads(1);
  const std::vector<float> one = pass.run();
  for (const int threads : {2, 3, 8}) {
    kv::set_num_threads(threads);
    CHECK(pass.run() == one);
  }
  kv::set_num_threads(before);
}

TEST_CASE("keys after the query are never read as numbers") {
  for (const float poison : {kNaN, std::numeric_limits<float>::infinity(), 1e38f}) {
    CausalCase pass({200}, 4, 2, 24, 4);
    const std::vector<float> clean = pass.run();
    constexpr std::ptrdiff_t kFirst = 131;  // poison this token and all after it
    const std::ptrdiff_t kv_row = pass.num_kv_heads * pass.head_dim;
    std::fill(pass.k.begin() + kFirst * kv_row, pass.k.end(), poison);
    std::fill(pass.v.begin() + kFirst * kv_row, pass.v.end(), poison);
    const auto before = static_cast<size_t>(kFirst * pass.num_heads * pass.head_dim);
    CHECK(rows_of(pass.run(), 0, before) == rows_of(clean, 0, before));
  }
}

TEST_CASE("queries that go through K and V together do not see each other") {
  constexpr int kDim = 40;
  std::mt19937_64 rng(5);
  const std::vector<float> q = random_floats(rng, kDim * 9);
  const std::vector<float> kv = random_floats(rng, 600 * kDim);
  const kv::attention::KvRows rows{kv.data(), kv.data() + 7, kDim};
  std::vector<int> lengths{0, 1, 63, 64, 65, 256, 257, 320, 599};
  for (int round = 0; round < 20; ++round) {
    std::shuffle(lengths.begin(), lengths.end(), rng);
    std::vector<float> together(q.size(), kNaN), alone(q.size(), kNaN);
    std::vector<kv::attention::Query> queries;
    for (size_t i = 0; i < lengths.size(); ++i) {
      queries.push_back({&q[i * kDim], &together[i * kDim], lengths[i]});
      const kv::attention::Query query{&q[i * kDim], &alone[i * kDim], lengths[i]};
      kv::attention::attend({&query, 1}, rows, kDim, 0.2f);
      if (lengths[i] == 0) CHECK(alone[i * kDim] == 0.0f);
    }
    kv::attention::attend(queries, rows, kDim, 0.2f);
    CHECK(together == alone);
  }
}

TEST_CASE("merging two parts weighs each by its own maximum") {
  kv::attention::Partial a, b;
  a.m = 1.0f, a.l = 2.0f, a.acc[0] = 3.0f;
  b.m = 3.0f, b.l = 1.5f, b.acc[0] = -1.0f;
  const double shrink = std::exp(-2.0);
  for (const bool swapped : {false, true}) {
    kv::attention::Partial first = swapped ? b : a;
    kv::attention::merge(first, swapped ? a : b, 1);
    CHECK(first.m == 3.0f);
    CHECK(std::abs(double{first.l} - (2.0 * shrink + 1.5)) <= 1e-6);
    CHECK(std::abs(double{first.acc[0]} - (3.0 * shrink - 1.0)) <= 1e-6);
  }
}

TEST_CASE("tiles and groups are merged in the order of the contract") {
  // With head_dim 1 a score is one product, so the contract can be spelled out bit by bit.
  std::mt19937_64 rng(7);
  const std::vector<float> k = random_floats(rng, 1500), v = random_floats(rng, 1500);
  const float q = 1.7f;
  for (const int num_keys : {1, 64, 65, 256, 257, 320, 512, 600, 1500}) {
    CAPTURE(num_keys);
    kv::attention::Partial result, group, tile;
    for (int first = 0; first < num_keys; first += kv::attention::kTileTokens) {
      const int end = std::min(first + kv::attention::kTileTokens, num_keys);
      tile = {};
      for (int t = first; t < end; ++t) tile.m = std::max(tile.m, q * k[static_cast<size_t>(t)]);
      tile.acc[0] = 0.0f;
      for (int t = first; t < end; ++t) {
        const float p = std::exp(q * k[static_cast<size_t>(t)] - tile.m);
        tile.l += p;
        tile.acc[0] += p * v[static_cast<size_t>(t)];
      }
      const bool opens = first % kv::attention::kGroupTokens == 0;
      if (opens)
        group = tile;
      else
        kv::attention::merge(group, tile, 1);
      if (end % kv::attention::kGroupTokens != 0 && end != num_keys) continue;
      if (end <= kv::attention::kGroupTokens)
        result = group;
      else
        kv::attention::merge(result, group, 1);
    }
    float out = kNaN;
    const kv::attention::Query query{&q, &out, num_keys};
    kv::attention::attend({&query, 1}, kv::attention::KvRows{k.data(), v.data(), 1}, 1, 1.0f);
    CHECK(out == result.acc[0] / result.l);
  }
}

TEST_CASE("scores far apart neither overflow nor lose the largest") {
  constexpr int kDim = 16;
  std::vector<float> q(kDim, 0.0f), k(300 * kDim, 0.0f), v(300 * kDim, 1.0f), out(kDim, kNaN);
  q[0] = 1.0f;
  k[0] = -1e4f;          // the first key of the first tile: exp() of it alone is zero
  k[299 * kDim] = 1e4f;  // the last key: it wins everything
  v[299 * kDim] = 42.0f;
  const kv::attention::Query query{q.data(), out.data(), 300};
  kv::attention::attend({&query, 1}, kv::attention::KvRows{k.data(), v.data(), kDim}, kDim, 1.0f);
  CHECK(out[0] == 42.0f);
  CHECK(out[1] == 1.0f);
}

TEST_CASE("the order of a sum changes its bits") {
  std::vector<float> numbers;
  for (int i = 1; i <= 1000; ++i) numbers.push_back(1.0f / static_cast<float>(i));
  const float forward = std::accumulate(numbers.begin(), numbers.end(), 0.0f);
  const float backward = std::accumulate(numbers.rbegin(), numbers.rend(), 0.0f);
  CHECK(std::bit_cast<uint32_t>(forward) == 0x40ef890au);
  CHECK(std::bit_cast<uint32_t>(backward) == 0x40ef88fcu);
}

TEST_CASE("the order of merges changes the bits, so the contract fixes it") {
  std::mt19937_64 rng(6);
  std::vector<kv::attention::Partial> parts(8);
  for (kv::attention::Partial& part : parts) {
    const std::vector<float> x = random_floats(rng, 3);
    part.m = x[0], part.l = std::abs(x[1]) + 1.0f, part.acc[0] = x[2];
  }
  kv::attention::Partial chain = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) kv::attention::merge(chain, parts[i], 1);
  kv::attention::Partial halves[2] = {parts[0], parts[4]};
  for (size_t i = 1; i < 4; ++i) {
    kv::attention::merge(halves[0], parts[i], 1);
    kv::attention::merge(halves[1], parts[4 + i], 1);
  }
  kv::attention::merge(halves[0], halves[1], 1);
  CHECK(std::abs(chain.acc[0] / chain.l - halves[0].acc[0] / halves[0].l) <= 1e-6f);
  CHECK(chain.acc[0] != halves[0].acc[0]);
}
