// Every step of the road to the engine's matrix product, exactly: with small whole numbers no sum
// is rounded in any order.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "common/device.h"
#include "kernels/pack_weights.h"
#include "kernels/road/road.h"
#include "tests/support/device_arrays.h"

namespace {

using kv::Matrix;
using kv::road::kSteps;
using kv::road::Step;

/// Whole numbers from -8 to 8: sums of 4,096 products are far below 2^24.
std::vector<kv::BFloat16> whole_numbers(int rows, int k, uint32_t seed) {
  std::mt19937 rng(seed);
  std::uniform_int_distribution<int> number(-8, 8);
  std::vector<kv::BFloat16> values(static_cast<size_t>(rows) * static_cast<size_t>(k));
  for (kv::BFloat16& v : values) v = kv::to_bfloat16(static_cast<float>(number(rng)));
  return values;
}

struct Shape {
  int outputs, k, rows;
  int gap = 0;  // elements between two rows of out
};

void check(const Step& step, const Shape& shape) {
  const kv::Stream stream(kv::Device::kCuda);
  const auto weights = whole_numbers(shape.outputs, shape.k, 1);
  const auto inputs = whole_numbers(shape.rows, shape.k, 2);
  const auto x = kvtest::upload(inputs, stream), raw = kvtest::upload(weights, stream);
  Matrix matrix{weights.data(), kv::DType::kBF16, shape.outputs, shape.k};
  kv::PackedWeights packed;
  if (step.packed) {
    packed = kv::pack_weights({&matrix, 1}, kv::PackOrder::kStacked, stream);
    matrix = packed.matrix;
  } else {
    matrix.data = raw.data();
  }
  const int64_t stride = shape.outputs + shape.gap;
  const auto size = static_cast<size_t>(stride * shape.rows);
  const auto out = kvtest::poisoned(size * sizeof(float), stream);
  const auto scratch =
      kvtest::poisoned(kv::matmul_scratch_bytes(kv::Device::kCuda, shape.rows, shape.k), stream);
  step.multiply({.x = x.data(),
                 .num_rows = shape.rows,
                 .k = shape.k,
                 .weight = {&matrix, 1},
                 .out = out.data(),
                 .out_stride = stride,
                 .scratch = scratch.data()},
                stream);
  const std::vector<float> w = kvtest::floats_of(weights), in = kvtest::floats_of(inputs);
  const std::vector<float> got = kvtest::download<float>(out.data(), size, stream);
  int64_t wrong = 0, written_between = 0;
  for (int row = 0; row < shape.rows; ++row) {
    const float* line = &got[static_cast<size_t>(row * stride)];
    for (int output = 0; output < shape.outputs; ++output) {
      float want = 0;
      for (int i = 0; i < shape.k; ++i) {
        want += w[static_cast<size_t>(output * shape.k + i)] *
                in[static_cast<size_t>(row * shape.k + i)];
      }
      wrong += !(line[output] == want);
    }
    for (int i = 0; i < shape.gap; ++i) written_between += !std::isnan(line[shape.outputs + i]);
  }
  CHECK(wrong == 0);
  CHECK(written_between == 0);
}

}  // namespace

TEST_CASE("every step is exact for whole numbers, whatever the shape") {
  for (const Shape& shape : std::vector<Shape>{{1, 64, 1},
                                               {7, 64, 3, 5},
                                               {129, 128, 130, 3},
                                               {64, 192, 64},
                                               {200, 1024, 65},
                                               {300, 2112, 17, 20},
                                               {128, 4096, 1},
                                               {257, 320, 129}}) {
    for (const Step& step : kSteps) {
      CAPTURE(step.idea);
      CAPTURE(shape.outputs);
      CAPTURE(shape.k);
      CAPTURE(shape.rows);
      check(step, shape);
    }
  }
}

TEST_CASE("what a step does not do is refused") {
  const kv::Stream stream(kv::Device::kCuda);
  for (const Step& step : kSteps) {
    if (step.packed) continue;
    Matrix matrix{nullptr, kv::DType::kBF16, 8, 72};
    kv::MatmulArgs args{.num_rows = 1, .k = 72, .weight = {&matrix, 1}, .out_stride = 8};
    CHECK_THROWS_AS(step.multiply(args, stream), std::invalid_argument);
    args.k = matrix.cols = 64, args.epilogue = kv::Epilogue::kAdd;
    CHECK_THROWS_AS(step.multiply(args, stream), std::invalid_argument);
    args.epilogue = kv::Epilogue::kStore, matrix.dtype = kv::DType::kF32;
    CHECK_THROWS_AS(step.multiply(args, stream), std::invalid_argument);
  }
}
