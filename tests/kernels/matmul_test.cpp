#include "kernels/matmul.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/parallel.h"
#include "kernels/matmul_cpu.h"
#include "kernels/rmsnorm.h"
#include "tests/kernels/random_floats.h"
#include "tests/support/device_arrays.h"

using kvtest::random_floats;
using kvtest::same_bits;
using kvtest::StoredMatrix;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// One product over parts of W; what it does not set is the plainest.
struct Product {
  std::vector<float> x;
  int rows = 1;
  int k = 1;
  std::vector<kv::Matrix> parts;
  kv::Epilogue epilogue = kv::Epilogue::kStore;
  std::vector<float> norm_weight = {};
  int unused_columns = 0;  // of the output, after each row

  int width() const {
    if (epilogue == kv::Epilogue::kSiluMul) return parts[0].rows;
    int n = 0;
    for (const kv::Matrix& part : parts) n += part.rows;
    return n;
  }

  /// [rows, width and the unused columns] from a poisoned output.
  std::vector<float> run(float initial = kNaN) const {
    const int stride = width() + unused_columns;
    std::vector<float> out(static_cast<size_t>(rows) * static_cast<size_t>(stride), initial);
    kv::MatmulArgs args;
    args.x = x.data();
    args.num_rows = rows;
    args.k = k;
    args.norm_weight = norm_weight.empty() ? nullptr : norm_weight.data();
    args.norm_eps = 1e-6f;
    args.weight = parts;
    args.epilogue = epilogue;
    args.out = out.data();
    args.out_stride = stride;
    kv::matmul_cpu(args);
    return out;
  }
};

/// Restores what a test changed.
struct Restore {
  int threads = kv::num_threads();
  ~Restore() {
    kv::set_num_threads(threads);
    kv::force_matmul_isa(nullptr);
  }
};

/// Sum of products in double precision, and of their magnitudes.
struct Exact {
  double sum = 0;
  double magnitude = 0;
};
Exact exact_dot(const float* x, const float* w, int k) {
  Exact e;
  for (int i = 0; i < k; ++i) {
    const double p = static_cast<double>(x[i]) * static_cast<double>(w[i]);
    e.sum += p;
    e.magnitude += std::abs(p);
  }
  return e;
}

/// Every product passes through at most k/16 fused steps and 4 additions of the tree, each of which
/// adds half an ulp of a partial sum; no partial sum exceeds the sum of magnitudes.
double rounding_bound(int k) { return (k / 16 + 1 + 4) * 0x1p-24 * 1.001; }

/// Row `row` of a product alone has the bits that it has among all rows.
void check_alone(const Product& all, const std::vector<float>& batch, int row) {
  Product p = all;
  p.x.assign(all.x.begin() + row * p.k, all.x.begin() + (row + 1) * p.k);
  p.rows = 1;
  const std::vector<float> out = p.run();
  CAPTURE(row);
  CHECK(std::memcmp(out.data(), batch.data() + row * p.width(), out.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("matmul: agrees with double precision within the bound of its roundings" *
          doctest::test_suite("sweep")) {
  const Restore restore;
  for (const kv::MatmulIsa* isa : kv::available_matmul_isas()) {
    kv::force_matmul_isa(isa);
    for (const std::string dtype : {"BF16", "F16", "F32"}) {
      for (const int k : {1, 5, 15, 16, 17, 31, 100, 1024, 1040, 1101}) {
        for (const int n : {1, 7, 53, 97}) {
          for (const int rows : {1, 2, 5}) {
            const StoredMatrix w(dtype, n, k, 7);
            Product p{random_floats(int64_t{rows} * k, 3), rows, k, {w.view()}};
            const std::vector<float> out = p.run();
            double worst = 0;
            for (int r = 0; r < rows; ++r) {
              for (int c = 0; c < n; ++c) {
                const Exact e = exact_dot(p.x.data() + r * k, w.values.data() + c * k, k);
                const double error =
                    std::abs(static_cast<double>(out[static_cast<size_t>(r * n + c)]) - e.sum);
                const double relative = error / (e.magnitude + 1e-30);
                if (!(relative <= worst)) worst = relative;
              }
            }
            INFO(isa->name, " ", dtype, " k ", k, " n ", n, " rows ", rows);
            CHECK(worst <= rounding_bound(k));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: a row has the same bits alone and among 1 to 70 rows") {
  const Restore restore;
  // One k within a panel, one with whole panels, one with an odd tail: several pieces of K.
  for (const int k : {40, 2048, 2085}) {
    const StoredMatrix w("BF16", 53, k, 11);
    const Product all{random_floats(int64_t{70} * k, 5), 70, k, {w.view()}};
    const std::vector<float> batch = all.run();
    for (int rows = 1; rows <= 70; ++rows) {
      Product p = all;
      p.rows = rows;
      const std::vector<float> out = p.run();
      CAPTURE(k);
      CAPTURE(rows);
      CHECK(std::memcmp(out.data(), batch.data(), out.size() * sizeof(float)) == 0);
    }
    for (int row = 0; row < 70; ++row) check_alone(all, batch, row);
  }
}

TEST_CASE("matmul: more rows than a cache block holds give the same bits") {
  const int k = 4096;  // 48 rows a block, and 48 columns
  const StoredMatrix w("BF16", 100, k, 13);
  const Product all{random_floats(int64_t{150} * k, 6), 150, k, {w.view()}};
  const std::vector<float> batch = all.run();
  for (const int row : {0, 47, 48, 95, 96, 149}) check_alone(all, batch, row);
}

TEST_CASE("matmul: 1 to 8 threads give the same bits") {
  const Restore restore;
  for (const int rows : {1, 13}) {
    const int k = 331;
    const StoredMatrix w("BF16", 409, k, 17);
    Product p{random_floats(int64_t{rows} * k, 9), rows, k, {w.view()}};
    p.norm_weight = random_floats(k, 10);
    kv::set_num_threads(1);
    const std::vector<float> one = p.run();
    for (int threads = 2; threads <= 8; ++threads) {
      kv::set_num_threads(threads);
      CHECK(same_bits(p.run(), one));
    }
  }
}

TEST_CASE("matmul: every instruction set gives the same bits, for equal weights of every dtype") {
  const Restore restore;
  const std::vector<const kv::MatmulIsa*> isas = kv::available_matmul_isas();
  CHECK(std::string(isas.back()->name) == "portable");
  for (const int k : {3, 16, 257, 1024, 1500}) {
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 21}) {
      std::vector<float> want;
      for (const std::string dtype : {"F32", "F16", "BF16"}) {
        const StoredMatrix w(dtype, 59, k, 19);  // values that every dtype holds exactly
        const Product p{random_floats(int64_t{rows} * k, 21), rows, k, {w.view()}};
        for (const kv::MatmulIsa* isa : isas) {
          kv::force_matmul_isa(isa);
          INFO(isa->name, " ", dtype, " k ", k, " rows ", rows);
          const std::vector<float> out = p.run();
          if (want.empty()) want = out;
          CHECK(same_bits(out, want));
        }
      }
    }
  }
}

TEST_CASE("matmul: fp16 weights may be subnormal or the largest number") {
  const std::vector<uint16_t> bits = {0x0001, 0x03FF, 0x0400, 0x7BFF,
                                      0x8001, 0xFBFF, 0x0000, 0x8000};
  const Restore restore;
  for (const kv::MatmulIsa* isa : kv::available_matmul_isas()) {
    kv::force_matmul_isa(isa);
    const kv::Matrix w{bits.data(), kv::DType::kF16, 8, 1};
    const std::vector<float> out = Product{{1.0f}, 1, 1, {w}}.run();
    CHECK(out[0] == 0x1p-24f);
    CHECK(out[1] == 1023 * 0x1p-24f);
    CHECK(out[2] == 0x1p-14f);
    CHECK(out[3] == 65504.0f);
    CHECK(out[4] == -0x1p-24f);
    CHECK(out[5] == -65504.0f);
  }
}

TEST_CASE("matmul: stacked parts are one matrix") {
  const int k = 36;
  const StoredMatrix w("BF16", 100, k, 31);
  const auto part = [&](int begin, int end) {
    kv::Matrix m = w.view();
    m.data = static_cast<const uint16_t*>(m.data) + begin * k;
    m.rows = end - begin;
    return m;
  };
  for (const int rows : {1, 6}) {
    Product p{random_floats(int64_t{rows} * k, 33), rows, k, {w.view()}};
    const std::vector<float> whole = p.run();
    p.parts = {part(0, 49), part(49, 50), part(50, 100)};
    CHECK(same_bits(p.run(), whole));
  }
}

TEST_CASE("matmul: adding to the output rounds once after the product") {
  const StoredMatrix w("BF16", 70, 50, 37);
  Product p{random_floats(int64_t{5} * 50, 39), 5, 50, {w.view()}};
  const std::vector<float> stored = p.run();
  p.epilogue = kv::Epilogue::kAdd;
  const std::vector<float> added = p.run(1.5f);
  for (size_t i = 0; i < stored.size(); ++i) CHECK(added[i] == 1.5f + stored[i]);
}

TEST_CASE("matmul: silu of the gate times up") {
  const int k = 50;
  const StoredMatrix gate("BF16", 70, k, 41, 2.0f);
  const StoredMatrix up("F32", 70, k, 43, 2.0f);
  for (const int rows : {1, 5}) {
    Product p{random_floats(int64_t{rows} * k, 45), rows, k, {gate.view(), up.view()}};
    p.epilogue = kv::Epilogue::kSiluMul;
    const std::vector<float> out = p.run();
    p.epilogue = kv::Epilogue::kStore;
    p.parts = {gate.view()};
    const std::vector<float> g = p.run();
    p.parts = {up.view()};
    const std::vector<float> u = p.run();
    for (size_t i = 0; i < out.size(); ++i) {
      const double x = static_cast<double>(g[i]);
      const double exact = x / (1 + std::exp(-x)) * static_cast<double>(u[i]);
      // exp, the sum, the quotient and the product: four roundings, each half an ulp or a little
      // more, and exp's is amplified by at most |x| / e^x < 1.
      CHECK(std::abs(static_cast<double>(out[i]) - exact) <= 4 * 0x1p-24 * 1.5 * std::abs(exact));
    }
  }
}

TEST_CASE("matmul: a gate of minus 200 or plus 200 gives no NaN") {
  const std::vector<float> gate = {-200.0f, 200.0f};
  const std::vector<float> up = {1.0f, 1.0f};
  Product p{
      {1.0f}, 1, 1, {{gate.data(), kv::DType::kF32, 2, 1}, {up.data(), kv::DType::kF32, 2, 1}}};
  p.epilogue = kv::Epilogue::kSiluMul;
  const std::vector<float> out = p.run();
  CHECK(std::abs(out[0]) <= 1e-30f);
  CHECK(out[1] == 200.0f);
}

TEST_CASE("matmul: the fused norm has the bits of rmsnorm before the product") {
  for (const int k : {16, 37, 1030}) {
    const int rows = 9;
    const StoredMatrix w("BF16", 23, k, 47);
    Product p{random_floats(int64_t{rows} * k, 49), rows, k, {w.view()}};
    std::vector<float> normed(p.x.size(), kNaN);
    const std::vector<float> weight = random_floats(k, 51);
    kv::rmsnorm_cpu({p.x.data(), weight.data(), rows, k, 1e-6f, normed.data()});
    p.norm_weight = weight;
    const std::vector<float> fused = p.run();
    p.norm_weight.clear();
    p.x = normed;
    CHECK(same_bits(p.run(), fused));
  }
}

TEST_CASE("matmul: touches only its own columns and reads only its own weights") {
  const int k = 21;  // not a multiple of 16: the tail of a row lies beside the next row
  StoredMatrix w("F32", 12, k, 53);
  for (int i = 0; i < k; ++i) w.values[static_cast<size_t>(5 * k + i)] = kNaN;
  std::memcpy(w.bytes.data(), w.values.data(), w.bytes.size());
  for (const int rows : {1, 3}) {
    Product p{random_floats(int64_t{rows} * k, 55), rows, k, {w.view()}};
    p.unused_columns = 8;
    const std::vector<float> out = p.run(42.0f);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < 20; ++c) {
        const float value = out[static_cast<size_t>(r * 20 + c)];
        if (c == 5) CHECK(std::isnan(value));
        if (c != 5 && c < 12) CHECK(std::isfinite(value));
        if (c >= 12) CHECK(value == 42.0f);
      }
    }
  }
}

TEST_CASE("matmul: no rows, no work") {
  const StoredMatrix w("BF16", 4, 8, 57);
  CHECK(Product{{}, 0, 8, {w.view()}}.run().empty());
}

TEST_CASE("matmul: parts that do not fit are refused") {
  const StoredMatrix a("BF16", 4, 8, 57);
  const StoredMatrix b("BF16", 5, 8, 58);
  const StoredMatrix c("BF16", 4, 9, 59);
  const std::vector<float> x(8, 1.0f);
  CHECK_THROWS_AS((Product{x, 1, 8, {a.view(), c.view()}}.run()), std::logic_error);
  Product pair{x, 1, 8, {a.view(), b.view()}};
  pair.epilogue = kv::Epilogue::kSiluMul;
  CHECK_THROWS_AS(pair.run(), std::logic_error);
  float out = 0;
  kv::MatmulArgs none;
  none.x = x.data();
  none.num_rows = 1;
  none.k = 8;
  none.out = &out;
  CHECK_THROWS_AS(kv::matmul_cpu(none), std::logic_error);
}
