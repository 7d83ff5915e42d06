// The matrix products on CUDA: right against a double-precision loop, and with the same bits for
// any number of rows.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "common/base/device.h"
#include "common/base/dtype.h"
#include "kernels/matmul.h"
#include "kernels/pack_weights.h"
#include "tests/kernels/random_floats.h"
#include "tests/support/device_arrays.h"

namespace {

using kv::BFloat16;
using kv::Device;
using kv::DeviceBuffer;
using kv::DType;
using kv::Epilogue;
using kv::Matrix;
using kv::Stream;

constexpr float kEps = 1e-6f;

std::vector<float> random_values(size_t n, uint32_t seed, float scale) {
  return kvtest::random_floats(static_cast<int64_t>(n), seed, scale);
}

std::vector<BFloat16> rounded(const std::vector<float>& values) {
  std::vector<BFloat16> out;
  out.reserve(values.size());
  for (const float v : values) out.push_back(kv::to_bfloat16(v));
  return out;
}

struct Case {
  int outputs;
  int k;
  Epilogue epilogue = Epilogue::kStore;
  bool norm = false;
};

/// A product with random weights, on the device and (rounded to bf16) on the host.
struct Product {
  Product(const Case& c, const Stream& s) : shape(c), stream(&s) {
    const int parts = c.epilogue == Epilogue::kSiluMul ? 2 : 1;
    const size_t n = static_cast<size_t>(c.outputs) * static_cast<size_t>(c.k);
    std::vector<Matrix> matrices;
    for (int p = 0; p < parts; ++p) {
      weights.push_back(rounded(random_values(n, 7u + static_cast<uint32_t>(p), 0.5f)));
      matrices.push_back({weights.back().data(), DType::kBF16, c.outputs, c.k});
    }
    packed = kv::pack_weights(
        matrices, parts == 2 ? kv::PackOrder::kInterleaved : kv::PackOrder::kStacked, s);
    norm_weight = random_values(static_cast<size_t>(c.k), 11, 1.0f);
    device_norm = kv::to_device(std::span<const float>(norm_weight), s);
  }

  /// Runs `rows` rows of x (fp32 with a norm, else rounded to bf16), adding to `old` for kAdd.
  std::vector<float> run(const std::vector<float>& x, int rows, float old = 0.0f,
                         void (*multiply)(const kv::MatmulArgs&,
                                          const Stream&) = kv::matmul_cuda) const {
    const size_t outputs = static_cast<size_t>(shape.outputs);
    const size_t size = static_cast<size_t>(rows) * outputs;
    const size_t used = static_cast<size_t>(rows) * static_cast<size_t>(shape.k);
    const std::vector<float> part(x.begin(), x.begin() + static_cast<int64_t>(used));
    const std::vector<BFloat16> part_bf16 = rounded(part);
    const DeviceBuffer in = shape.norm
                                ? kv::to_device(std::span<const float>(part), *stream)
                                : kv::to_device(std::span<const BFloat16>(part_bf16), *stream);
    const bool narrow = shape.epilogue == Epilogue::kSiluMul;
    const size_t bytes = size * (narrow ? sizeof(BFloat16) : sizeof(float));
    DeviceBuffer out(Device::kCuda, bytes + kGuardBytes);
    kv::fill_bytes(out.data(), 0xFF, out.bytes(), *stream);  // NaN
    if (shape.epilogue == Epilogue::kAdd) {
      const std::vector<float> before(size, old);
      kv::copy_to_device(out.data(), before.data(), bytes, *stream);
    }
    const DeviceBuffer scratch(Device::kCuda,
                               kv::matmul_scratch_bytes(Device::kCuda, rows, shape.k));
    kv::fill_bytes(scratch.data(), 0xFF, scratch.bytes(), *stream);
    multiply(args(in, rows, out, scratch), *stream);
    return result(out, size, bytes);
  }

  kv::MatmulArgs args(const DeviceBuffer& in, int rows, const DeviceBuffer& out,
                      const DeviceBuffer& scratch) const {
    kv::MatmulArgs a;
    a.x = in.data();
    a.num_rows = rows;
    a.k = shape.k;
    a.norm_weight = shape.norm ? device_norm.as<float>() : nullptr;
    a.norm_eps = kEps;
    a.weight = {&packed.matrix, 1};
    a.epilogue = shape.epilogue;
    a.out = out.data();
    a.out_stride = shape.outputs;
    a.scratch = scratch.data();
    return a;
  }

  std::vector<float> result(const DeviceBuffer& out, size_t size, size_t bytes) const {
    std::vector<unsigned char> raw(bytes + kGuardBytes);
    kv::copy_to_host(raw.data(), out.data(), raw.size(), *stream);
    const auto past_the_end = raw.begin() + static_cast<int64_t>(bytes);
    REQUIRE(std::count(past_the_end, raw.end(), 0xFF) == static_cast<int64_t>(kGuardBytes));
    std::vector<float> values(size);
    std::vector<BFloat16> narrow(size);
    const bool is_narrow = shape.epilogue == Epilogue::kSiluMul;
    std::memcpy(is_narrow ? static_cast<void*>(narrow.data()) : values.data(), raw.data(), bytes);
    return is_narrow ? kvtest::floats_of(narrow) : values;
  }

  /// The input row as the tensor cores see it.
  std::vector<double> input_row(const std::vector<float>& x, int row) const {
    const size_t k = static_cast<size_t>(shape.k);
    const float* values = x.data() + static_cast<size_t>(row) * k;
    double squares = 0;
    for (size_t i = 0; i < k; ++i) squares += double{values[i]} * values[i];
    const float scale = static_cast<float>(1.0 / std::sqrt(squares / shape.k + kEps));
    std::vector<double> out(k);
    for (size_t i = 0; i < k; ++i) {
      const float v = shape.norm ? values[i] * scale * norm_weight[i] : values[i];
      out[i] = kv::to_float(kv::to_bfloat16(v));
    }
    return out;
  }

  struct Sum {
    double value = 0;
    double magnitude = 0;  // sum of |w x|
  };
  Sum dot(size_t part, int output, const std::vector<double>& x) const {
    Sum sum;
    for (size_t i = 0; i < x.size(); ++i) {
      const BFloat16 w = weights[part][static_cast<size_t>(output) * x.size() + i];
      sum.value += kv::to_float(w) * x[i];
      sum.magnitude += std::abs(kv::to_float(w) * x[i]);
    }
    return sum;
  }

  static constexpr size_t kGuardBytes = 4096;
  Case shape;
  const Stream* stream;
  std::vector<std::vector<BFloat16>> weights;
  std::vector<float> norm_weight;
  kv::PackedWeights packed;
  DeviceBuffer device_norm;
};

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

std::vector<float> inputs(const Case& c, int rows) {
  return random_values(static_cast<size_t>(rows) * static_cast<size_t>(c.k), 3, 1.0f);
}

void check_all_rows(const Case& c, std::initializer_list<int> row_counts) {
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
  for (const auto& [outputs, k] : std::vector<std::pair<int, int>>{{1, 1},
                                                                   {7, 5},
                                                                   {8, 8},
                                                                   {16, 32},
                                                                   {17, 33},
                                                                   {100, 136},
                                                                   {129, 1000},
                                                                   {40, 1032},
                                                                   {1024, 2048},
                                                                   {72, 3072},
                                                                   {24, 5120},
                                                                   {65, 4100}}) {
    check_all_rows({outputs, k}, {1, 2, 3, 8, 9, 16, 17, 32, 33, 64, 65, 100, 129});
  }
}

TEST_CASE("matmul cuda: the fused norm has the bits of the separate one") {
  for (const auto& [outputs, k] : std::vector<std::pair<int, int>>{
           {40, 8}, {33, 20}, {48, 160}, {256, 1024}, {64, 1536}, {40, 2048}, {24, 3080}}) {
    check_all_rows({outputs, k, Epilogue::kStore, true}, {1, 2, 7, 8, 9, 20, 70});
  }
}

TEST_CASE("matmul cuda: silu of the gate times up") {
  for (const auto& [outputs, k] : std::vector<std::pair<int, int>>{
           {1, 8}, {12, 40}, {96, 1024}, {3072, 1024}, {40, 2048}, {136, 1111}}) {
    check_all_rows({outputs, k, Epilogue::kSiluMul, false}, {1, 5, 8, 9, 30, 66});
    check_all_rows({outputs, k, Epilogue::kSiluMul, true}, {1, 5, 8, 9, 30, 66});
  }
}

TEST_CASE("matmul cuda: adding to the residual stream") {
  const Stream stream(Device::kCuda);
  for (const auto& [outputs, k] :
       std::vector<std::pair<int, int>>{{24, 64}, {1024, 2048}, {1024, 3072}, {200, 2056}}) {
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

TEST_CASE("matmul cuda: 2048 rows have the bits of one") {
  const Stream stream(Device::kCuda);
  for (const int outputs : {320, 2305}) {  // a tile for each CTA, and several
    CAPTURE(outputs);
    const Product product({outputs, 1024, Epilogue::kStore, true}, stream);
    const std::vector<float> x = inputs(product.shape, 2048);
    const std::vector<float> all = product.run(x, 2048);
    const auto n = static_cast<size_t>(outputs);
    for (const int row : {0, 1, 127, 128, 1000, 2047}) {
      const auto from = x.begin() + static_cast<int64_t>(row) * 1024;
      const std::vector<float> one = product.run(std::vector<float>(from, from + 1024), 1);
      CHECK(std::memcmp(one.data(), all.data() + static_cast<size_t>(row) * n, n * 4) == 0);
    }
  }
}

TEST_CASE("matmul cuda: warps and warpgroups have the same bits") {
  const Stream stream(Device::kCuda);
  for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSiluMul}) {
    for (const auto& [outputs, k] :
         std::vector<std::pair<int, int>>{{1024, 2048},  // two CTAs share a tile of up to 256 rows
                                          {1024, 3072},  // three do, of up to 128
                                          {6144, 1024},  // tiles of 64, 96 and 192 outputs
                                          {1001, 2176},
                                          {3072, 1024},
                                          {1030, 136},
                                          {77, 384}}) {
      CAPTURE(outputs);
      CAPTURE(k);
      const Product product({outputs, k, epilogue}, stream);
      for (const int rows : {17, 33, 64, 65, 100, 128, 129, 200, 256, 500}) {
        CAPTURE(rows);
        const std::vector<float> x = inputs(product.shape, rows);
        const std::vector<float> got = product.run(x, rows, 0.5f);
        const std::vector<float> want = product.run(x, rows, 0.5f, kv::matmul_by_warps_cuda);
        CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("matmul cuda: CTAs that share a tile give the same bits however often they are tried") {
  const Stream stream(Device::kCuda);
  for (const int k : {1024, 2048, 3072}) {  // one CTA, two, three; the norm is a kernel before them
    const Product product({1024, k, Epilogue::kStore, true}, stream);
    const std::vector<float> x = inputs(product.shape, 100);
    for (const int rows : {40, 100}) {
      CAPTURE(k);
      CAPTURE(rows);
      const std::vector<float> want = product.run(x, rows, 0.0f, kv::matmul_by_warps_cuda);
      for (int i = 0; i < 10; ++i) {
        const std::vector<float> got = product.run(x, rows);
        CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
      }
    }
  }
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

TEST_CASE("pack_weights: fp16 and fp32 weights are rounded to nearest even") {
  const Stream stream(Device::kCuda);
  const int n = 37;
  const int k = 72;
  std::vector<float> exact = random_values(static_cast<size_t>(n * k), 5, 1.0f);
  exact[0] = 1.00390625f;  // half way between two bf16: to the even one, 1.0
  exact[1] = 1.01171875f;  // half way: to the even one, 1.015625
  const std::vector<BFloat16> bf16 = rounded(exact);
  std::vector<kv::Half> half;
  std::vector<BFloat16> half_as_bf16;
  for (uint32_t i = 0; i < static_cast<uint32_t>(n * k); ++i) {
    half.push_back({static_cast<uint16_t>(i * 2654435761u >> 16 & 0xBBFFu)});  // finite, any sign
    half_as_bf16.push_back(kv::to_bfloat16(kv::to_float(half.back())));
  }
  const auto bytes_of = [&](const void* data, DType dtype) {
    const Matrix matrix{data, dtype, n, k};
    const kv::PackedWeights packed =
        kv::pack_weights({&matrix, 1}, kv::PackOrder::kStacked, stream);
    std::vector<unsigned char> bytes(packed.buffer.bytes());
    kv::copy_to_host(bytes.data(), packed.buffer.data(), bytes.size(), stream);
    return bytes;
  };
  CHECK(bytes_of(exact.data(), DType::kF32) == bytes_of(bf16.data(), DType::kBF16));
  CHECK(bytes_of(half.data(), DType::kF16) == bytes_of(half_as_bf16.data(), DType::kBF16));
  CHECK(bytes_of(bf16.data(), DType::kBF16).size() == 48 * 128 * 2);  // padded to 16 x 128
}

TEST_CASE("pack_weights: stacked parts are one matrix") {
  const Stream stream(Device::kCuda);
  const std::vector<BFloat16> values = rounded(random_values(33 * 40, 5, 1.0f));
  const std::vector<Matrix> parts = {{values.data(), DType::kBF16, 13, 40},
                                     {values.data() + 13 * 40, DType::kBF16, 1, 40},
                                     {values.data() + 14 * 40, DType::kBF16, 19, 40}};
  const Matrix whole{values.data(), DType::kBF16, 33, 40};
  const auto bytes_of = [&](std::span<const Matrix> matrices) {
    int64_t reported = 0;
    const kv::PackedWeights packed = kv::pack_weights(matrices, kv::PackOrder::kStacked, stream,
                                                      [&](int64_t bytes) { reported += bytes; });
    CHECK(packed.matrix.rows == 33);
    CHECK(reported == 33 * 40 * 2);
    std::vector<unsigned char> bytes(packed.buffer.bytes());
    kv::copy_to_host(bytes.data(), packed.buffer.data(), bytes.size(), stream);
    return bytes;
  };
  CHECK(bytes_of(parts) == bytes_of({&whole, 1}));
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
