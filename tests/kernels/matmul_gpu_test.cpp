// The matrix products on CUDA: right against a double-precision loop, and with the same bits for
// any number of rows.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/pack_weights.h"
#include "tests/kernels/matmul_product.h"

namespace {

using kv::Device;
using kv::DeviceBuffer;
using kv::DType;
using kv::Epilogue;
using kv::Matrix;
using kv::Stream;
using kvtest::inputs;
using kvtest::Product;
using kvtest::ProductShape;

using Sizes = std::vector<std::pair<int, int>>;  // outputs, inputs

double silu(double x) { return x / (1.0 + std::exp(-x)); }

/// Largest error over its tolerance. Sums are fp32: at most 24 roundings of a chunk's chain and of
/// the totals matter, each 2^-22 (tensor cores cut off) of the terms' magnitudes. With a norm, an
/// input next to a rounding boundary may fall to the other side: 2^-9 of a few terms.
double worst(const Product& product, const std::vector<float>& x, int rows, float old = 0.0f) {
  const std::vector<float> out = product.run(x, rows, old);
  const double unit = product.shape.norm ? 0x1p-10 : 24 * 0x1p-22;
  double result = 0;
  // Every row of a short pass, some rows of a long one.
  for (int row = 0; row < rows; row += rows < 20 ? 1 : 13) {
    const std::vector<double> in = product.input_row(x, row);
    for (int output = 0; output < product.shape.outputs; ++output) {
      const Product::Sum sum = product.dot(0, output, in);
      double want = sum.value + old;
      double tolerance = unit * (sum.magnitude + std::abs(double{old})) + 1e-30;
      if (product.shape.epilogue == Epilogue::kSiluMul) {
        const Product::Sum up = product.dot(1, output, in);
        want = silu(sum.value) * up.value;
        tolerance = unit * (1.1 * sum.magnitude * std::abs(up.value) +
                            std::abs(silu(sum.value)) * up.magnitude) +
                    0x1p-8 * std::abs(want) + 1e-30;
      }
      const size_t at = static_cast<size_t>(row) * static_cast<size_t>(product.shape.outputs) +
                        static_cast<size_t>(output);
      const double error = std::abs(out[at] - want) / tolerance;
      if (!(error <= result)) result = error;  // also NaN
    }
  }
  return result;
}

void check_all_rows(const ProductShape& c, std::initializer_list<int> row_counts) {
  const Stream stream(Device::kCuda);
  const Product product(c, stream);
  const int most = *std::max_element(row_counts.begin(), row_counts.end());
  const std::vector<float> x = inputs(c, most);
  const std::vector<float> all = product.run(x, most);
  for (const int rows : row_counts) {
    CAPTURE(c.outputs);
    CAPTURE(c.k);
    CAPTURE(rows);
    CHECK(worst(product, x, rows) <= 1.0);
    const std::vector<float> some = product.run(x, rows);
    CHECK(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("matmul cuda: right for awkward shapes, and one row has the bits of many") {
  const Sizes sizes{{1, 1},      {7, 5},     {8, 8},       {16, 32},   {17, 33},   {100, 136},
                    {129, 1000}, {40, 1032}, {1024, 2048}, {72, 3072}, {24, 5120}, {65, 4100}};
  for (const auto& [outputs, k] : sizes) {
    check_all_rows({outputs, k}, {1, 2, 3, 8, 9, 16, 17, 32, 33, 64, 65, 100, 129});
  }
}

TEST_CASE("matmul cuda: the fused norm has the bits of the separate one") {
  for (const auto& [outputs, k] :
       Sizes{{40, 8}, {33, 20}, {48, 160}, {256, 1024}, {64, 1536}, {40, 2048}, {24, 3080}}) {
    check_all_rows({outputs, k, Epilogue::kStore, true}, {1, 2, 7, 8, 9, 20, 70});
  }
}

TEST_CASE("matmul cuda: silu of the gate times up") {
  for (const auto& [outputs, k] :
       Sizes{{1, 8}, {12, 40}, {96, 1024}, {3072, 1024}, {40, 2048}, {136, 1111}}) {
    check_all_rows({outputs, k, Epilogue::kSiluMul, false}, {1, 5, 8, 9, 30, 66});
    check_all_rows({outputs, k, Epilogue::kSiluMul, true}, {1, 5, 8, 9, 30, 66});
  }
}

TEST_CASE("matmul cuda: adding to the residual stream") {
  const Stream stream(Device::kCuda);
  for (const auto& [outputs, k] : Sizes{{24, 64}, {1024, 2048}, {1024, 3072}, {200, 2056}}) {
    const Product product({outputs, k, Epilogue::kAdd}, stream);
    const std::vector<float> x = inputs(product.shape, 70);
    for (const int rows : {1, 8, 12, 70}) {
      CAPTURE(outputs);
      CAPTURE(rows);
      CHECK(worst(product, x, rows, 3.25f) <= 1.0);
    }
  }
}

TEST_CASE("matmul cuda: more stages than the ring holds") {
  // 45,000 outputs give every CTA more units than stages, and uneven numbers of them.
  check_all_rows({45000, 72, Epilogue::kStore, true}, {1, 3, 8});
  check_all_rows({20011, 1024, Epilogue::kStore, true}, {1, 8});
  check_all_rows({45000, 72}, {1, 12, 30, 64, 65});
}

TEST_CASE("matmul cuda: a NaN stays in its row") {
  const Stream stream(Device::kCuda);
  const Product product({48, 256}, stream);
  std::vector<float> x = inputs(product.shape, 70);
  const std::vector<float> clean = product.run(x, 70);
  x[256 * 5 + 17] = std::numeric_limits<float>::quiet_NaN();
  for (const int rows : {6, 8, 16, 64, 70}) {
    const std::vector<float> out = product.run(x, rows);
    for (int row = 0; row < rows; ++row) {
      for (size_t i = 0; i < 48; ++i) {
        const size_t at = static_cast<size_t>(row) * 48 + i;
        if (row == 5) {
          CHECK(std::isnan(out[at]));
        } else {
          CHECK(out[at] == clean[at]);
        }
      }
    }
  }
}

TEST_CASE("matmul cuda: arguments that break its rules are refused") {
  const Stream stream(Device::kCuda);
  const Product product({16, 12}, stream);  // 12 columns: rows need realignment
  const DeviceBuffer buffer(Device::kCuda, 4096);
  kv::MatmulArgs args = product.args(buffer, 1, buffer, DeviceBuffer());
  CHECK_THROWS_AS(kv::matmul_cuda(args, stream), std::logic_error);
  args.k = 13;
  CHECK_THROWS_AS(kv::matmul_cuda(args, stream), std::logic_error);
  args.weight = {};
  CHECK_THROWS_AS(kv::matmul_cuda(args, stream), std::logic_error);
  const Matrix a{nullptr, DType::kBF16, 8, 32};
  const Matrix b{nullptr, DType::kBF16, 16, 32};
  const std::vector<Matrix> uneven = {a, b};
  CHECK_THROWS_AS(kv::pack_weights(uneven, kv::PackOrder::kInterleaved, stream), std::logic_error);
  CHECK_THROWS_AS(kv::pack_weights({}, kv::PackOrder::kStacked, stream), std::logic_error);
}
