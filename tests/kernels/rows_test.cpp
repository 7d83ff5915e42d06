// The kernels that work row by row.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/parallel.h"
#include "kernels/argmax.h"
#include "kernels/embedding.h"
#include "kernels/exp.h"
#include "kernels/gather_rows.h"
#include "kernels/rmsnorm.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/rope_rows.h"

using kvtest::random_floats;
using kvtest::RopeRows;
using kvtest::StoredMatrix;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> exact_rmsnorm(const float* x, const float* weight, int k, double eps) {
  double sum = 0;
  for (int i = 0; i < k; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  std::vector<double> out(static_cast<size_t>(k));
  for (int i = 0; i < k; ++i) {
    out[static_cast<size_t>(i)] =
        static_cast<double>(x[i]) / std::sqrt(sum / k + eps) * static_cast<double>(weight[i]);
  }
  return out;
}

/// The sum's relative error is at most (k/16 + 6) half ulps and counts half through the root; then
/// come the division, the sum with eps, the root, the reciprocal and two products.
double norm_bound(int k) { return (0.5 * (k / 16 + 6) + 6) * 0x1p-24; }

}  // namespace

TEST_CASE("exp: within its bound of double precision, and where float ends" *
          doctest::test_suite("sweep")) {
  CHECK(kv::exp_of(0.0f) == 1.0f);
  CHECK(kv::exp_of(-0.0f) == 1.0f);
  CHECK(kv::exp_of(-kInf) == 0.0f);
  CHECK(kv::exp_of(-104.0f) == 0.0f);
  CHECK(kv::exp_of(-103.0f) > 0.0f);
  CHECK(kv::exp_of(88.7f) < kInf);
  CHECK(kv::exp_of(88.8f) == kInf);
  CHECK(kv::exp_of(kInf) == kInf);
  CHECK(std::isnan(kv::exp_of(kNaN)));
  for (float x = -103.9f; x < 88.7f; x += 0.00137f) {
    const double exact = std::exp(static_cast<double>(x));
    const double last_place = std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
    CHECK(std::abs(static_cast<double>(kv::exp_of(x)) - exact) <= 0.502 * last_place);
  }
}

TEST_CASE("exp: the same bits for any number at once, on every machine") {
  std::vector<float> each(257);
  for (size_t i = 0; i < each.size(); ++i) each[i] = -0.37f * static_cast<float>(i % 111) + 1.3f;
  const std::vector<float> x = each;
  for (float& value : each) value = kv::exp_of(value - 0.25f);
  for (const size_t n : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 64u, 257u}) {
    CAPTURE(n);
    std::vector<float> some = x;
    kv::exp_each(some.data(), static_cast<int>(n), 0.25f);
    for (size_t i = 0; i < n; ++i) CHECK(some[i] == each[i]);
    for (size_t i = n; i < x.size(); ++i) CHECK(some[i] == x[i]);
  }
  uint64_t bits = 0;
  for (const float value : each) bits = bits * 31 + std::bit_cast<uint32_t>(value);
  // AVX-512, AVX2, plain x86-64, arm64, WebAssembly: all of them.
  CHECK(bits == 16268915155299637103u);
}

TEST_CASE("rmsnorm: agrees with double precision within the bound of its roundings" *
          doctest::test_suite("sweep")) {
  for (const int k : {1, 5, 16, 33, 128, 1024, 1027}) {
    const int rows = 7;
    const std::vector<float> x = random_floats(int64_t{rows} * k, 1, 3.0f);
    const std::vector<float> weight = random_floats(k, 2);
    std::vector<float> out(x.size(), kNaN);
    kv::rmsnorm_cpu({x.data(), weight.data(), rows, k, 1e-6f, out.data()});
    for (int r = 0; r < rows; ++r) {
      const std::vector<double> exact = exact_rmsnorm(x.data() + r * k, weight.data(), k, 1e-6);
      for (int i = 0; i < k; ++i) {
        const double want = exact[static_cast<size_t>(i)];
        const double error =
            std::abs(static_cast<double>(out[static_cast<size_t>(r * k + i)]) - want);
        CHECK(error <= norm_bound(k) * std::abs(want));
      }
    }
  }
}

TEST_CASE("rmsnorm: a row of zeros stays zero, and a row has the same bits alone") {
  const int k = 77;
  std::vector<float> x = random_floats(int64_t{40} * k, 3);
  std::fill(x.begin(), x.begin() + k, 0.0f);
  const std::vector<float> weight = random_floats(k, 4);
  std::vector<float> all(x.size(), kNaN);
  kv::rmsnorm_cpu({x.data(), weight.data(), 40, k, 1e-6f, all.data()});
  for (int i = 0; i < k; ++i) CHECK(all[static_cast<size_t>(i)] == 0.0f);
  for (int r = 0; r < 40; ++r) {
    std::vector<float> one(static_cast<size_t>(k), kNaN);
    kv::rmsnorm_cpu({x.data() + r * k, weight.data(), 1, k, 1e-6f, one.data()});
    CHECK(std::memcmp(one.data(), all.data() + r * k, one.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("embedding: copies rows of the table in every dtype") {
  const std::vector<int32_t> ids = {4, 0, 10, 4};
  for (const char* dtype : {"BF16", "F16", "F32"}) {
    const StoredMatrix table(dtype, 11, 19, 5);
    std::vector<float> out(ids.size() * 19, kNaN);
    kv::embedding_cpu({ids.data(), 4, table.view(), out.data()});
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t i = 0; i < 19; ++i) {
        CHECK(out[r * 19 + i] == table.values[static_cast<size_t>(ids[r]) * 19 + i]);
      }
    }
  }
}

TEST_CASE("gather_rows: copies the wanted rows in their order") {
  const std::vector<float> x = random_floats(6 * 5, 6);
  const std::vector<int32_t> rows = {0, 2, 5};
  std::vector<float> out(15, kNaN);
  kv::gather_rows_cpu({x.data(), rows.data(), 3, 5, out.data()});
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < 5; ++i) {
      CHECK(out[r * 5 + i] == x[static_cast<size_t>(rows[r]) * 5 + i]);
    }
  }
}

TEST_CASE("argmax: the lowest index wins among equals and NaN loses") {
  const std::vector<float> logits = {1, 3, 3, 2, kNaN, -5, -4, kNaN, -kInf, -1, 7, 7};  // [3, 4]
  std::vector<int32_t> out(3, -1);
  kv::argmax_cpu({logits.data(), 3, 4, out.data()});
  CHECK(out == std::vector<int32_t>{1, 2, 2});
}

namespace {

/// One head in double precision; the angle is the rounded fp32 product, as in the definition.
std::vector<double> exact_head(const RopeRows& rope, const float* in, const float* weight,
                               int position) {
  std::vector<double> x(in, in + rope.dim);
  if (rope.norm) x = exact_rmsnorm(in, weight, rope.dim, 1e-6);
  std::vector<double> out = x;
  for (int i = 0; i < rope.dim / 2; ++i) {
    const size_t a = static_cast<size_t>(i);
    const size_t b = a + static_cast<size_t>(rope.dim / 2);
    const double angle = static_cast<double>(static_cast<float>(position) * rope.inv_freq[a]);
    out[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
    out[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
  }
  return out;
}

}  // namespace

TEST_CASE("qk_norm_rope: agrees with double precision and copies v" *
          doctest::test_suite("sweep")) {
  for (const int dim : {2, 32, 80, 128}) {
    for (const bool norm : {true, false}) {
      RopeRows rope(3, 4, 2, dim, norm);
      rope.positions = {0, 1, 1000};
      rope.run();
      const int width = (rope.heads + 2 * rope.kv_heads) * dim;
      for (int r = 0; r < rope.rows; ++r) {
        const float* in = rope.qkv.data() + r * width;
        for (int h = 0; h < rope.heads + rope.kv_heads; ++h) {
          const bool is_q = h < rope.heads;
          const float* got =
              is_q ? &rope.q[static_cast<size_t>((r * rope.heads + h) * dim)]
                   : &rope.k[static_cast<size_t>((r * rope.kv_heads + h - rope.heads) * dim)];
          const std::vector<double> want =
              exact_head(rope, in + h * dim, is_q ? rope.q_weight.data() : rope.k_weight.data(),
                         rope.positions[static_cast<size_t>(r)]);
          double largest = 0;
          for (const double x : want) largest = std::max(largest, std::abs(x));
          for (int i = 0; i < dim; ++i) {
            // The norm's bound, and per pair one rounding of cos and sin (within an ulp each), two
            // products and a sum of numbers no larger than the pair, which is at most 2 largest.
            const double bound = (norm_bound(dim) + 5 * 0x1p-24) * 2 * largest;
            const double error =
                std::abs(static_cast<double>(got[i]) - want[static_cast<size_t>(i)]);
            CHECK(error <= bound);
          }
        }
        const float* v = in + (rope.heads + rope.kv_heads) * dim;
        const size_t v_width = static_cast<size_t>(rope.kv_heads * dim);
        CHECK(std::memcmp(v, &rope.v[static_cast<size_t>(r) * v_width], v_width * 4) == 0);
      }
    }
  }
}

TEST_CASE("qk_norm_rope: position 0 rotates nothing") {
  RopeRows rope(3, 4, 2, 8, false);
  rope.positions = {0, 0, 0};
  rope.run();
  CHECK(std::memcmp(rope.q.data(), rope.qkv.data(), 4 * 8 * sizeof(float)) == 0);
}

TEST_CASE("qk_norm_rope: K and V go to the slots of their rows, and without a slot nowhere") {
  RopeRows rope(3, 4, 2, 8, true);
  rope.run();
  const RopeRows in_order = rope;
  rope.slots = {2, -1, 0};
  rope.run();
  CHECK(rope.q == in_order.q);
  const auto width = rope.kv_heads * rope.dim;
  const auto is_row = [&](const std::vector<float>& slots, int slot, const float* row) {
    return std::memcmp(&slots[slot * width], row, width * sizeof(float)) == 0;
  };
  const std::vector<float> untouched(width, kNaN);
  CHECK(is_row(rope.k, 2, &in_order.k[0]));
  CHECK(is_row(rope.v, 2, &in_order.v[0]));
  CHECK(is_row(rope.k, 0, &in_order.k[2 * width]));
  CHECK(is_row(rope.v, 0, &in_order.v[2 * width]));
  CHECK(is_row(rope.k, 1, untouched.data()));
  CHECK(is_row(rope.v, 1, untouched.data()));
}
