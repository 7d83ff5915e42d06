#pragma once

// A product on the device with random weights, and what it multiplies as a host sees it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/device.h"
#include "common/dtype.h"
#include "kernels/matmul.h"
#include "kernels/pack_weights.h"
#include "tests/kernels/random_floats.h"
#include "tests/support/device_arrays.h"

namespace kvtest {

inline constexpr float kEps = 1e-6f;

inline std::vector<kv::BFloat16> rounded(const std::vector<float>& values) {
  std::vector<kv::BFloat16> out;
  out.reserve(values.size());
  for (const float v : values) out.push_back(kv::to_bfloat16(v));
  return out;
}

struct ProductShape {
  int outputs;
  int k;
  kv::Epilogue epilogue = kv::Epilogue::kStore;
  bool norm = false;
};

/// A product with random weights, on the device and (rounded to bf16) on the host.
struct Product {
  Product(const ProductShape& c, const kv::Stream& s) : shape(c), stream(&s) {
    const int parts = c.epilogue == kv::Epilogue::kSiluMul ? 2 : 1;
    const int64_t n = int64_t{c.outputs} * c.k;
    std::vector<kv::Matrix> matrices;
    for (int p = 0; p < parts; ++p) {
      weights.push_back(rounded(random_floats(n, 7u + static_cast<uint32_t>(p), 0.5f)));
      matrices.push_back({weights.back().data(), kv::DType::kBF16, c.outputs, c.k});
    }
    packed = kv::pack_weights(
        matrices, parts == 2 ? kv::PackOrder::kInterleaved : kv::PackOrder::kStacked, s);
    norm_weight = random_floats(c.k, 11);
    device_norm = kv::to_device(std::span<const float>(norm_weight), s);
  }

  using Multiply = void (*)(const kv::MatmulArgs&, const kv::Stream&);

  /// Runs `rows` rows of x (fp32 with a norm, else rounded to bf16), adding to `old` for kAdd.
  std::vector<float> run(const std::vector<float>& x, int rows, float old = 0.0f,
                         Multiply multiply = kv::matmul_cuda) const {
    return run_in_turn({x}, rows, 1, old, multiply).front();
  }

  /// Runs the inputs in turn, `times` products in all, each right after the one before it and with
  /// the same scratch memory.
  std::vector<std::vector<float>> run_in_turn(const std::vector<std::vector<float>>& inputs,
                                              int rows, size_t times, float old = 0.0f,
                                              Multiply multiply = kv::matmul_cuda) const {
    const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(shape.outputs);
    const bool narrow = shape.epilogue == kv::Epilogue::kSiluMul;
    const size_t bytes = size * (narrow ? sizeof(kv::BFloat16) : sizeof(float));
    std::vector<kv::DeviceBuffer> in, out;
    for (const std::vector<float>& x : inputs) in.push_back(upload(x, rows));
    for (size_t i = 0; i < times; ++i) {
      out.emplace_back(kv::Device::kCuda, bytes + kGuardBytes);
      kv::fill_bytes(out[i].data(), 0xFF, out[i].bytes(), *stream);  // NaN
      if (shape.epilogue != kv::Epilogue::kAdd) continue;
      const std::vector<float> before(size, old);
      kv::copy_to_device(out[i].data(), before.data(), bytes, *stream);
    }
    const kv::DeviceBuffer scratch(kv::Device::kCuda,
                                   kv::matmul_scratch_bytes(kv::Device::kCuda, rows, shape.k));
    kv::fill_bytes(scratch.data(), 0xFF, scratch.bytes(), *stream);
    for (size_t i = 0; i < times; ++i) {
      multiply(args(in[i % in.size()], rows, out[i], scratch), *stream);
    }
    std::vector<std::vector<float>> results;
    for (const kv::DeviceBuffer& each : out) results.push_back(result(each, size, bytes));
    return results;
  }

  kv::DeviceBuffer upload(const std::vector<float>& x, int rows) const {
    const size_t used = static_cast<size_t>(rows) * static_cast<size_t>(shape.k);
    const std::vector<float> part(x.begin(), x.begin() + static_cast<int64_t>(used));
    const std::vector<kv::BFloat16> narrow = rounded(part);
    return shape.norm ? kv::to_device(std::span<const float>(part), *stream)
                      : kv::to_device(std::span<const kv::BFloat16>(narrow), *stream);
  }

  kv::MatmulArgs args(const kv::DeviceBuffer& in, int rows, const kv::DeviceBuffer& out,
                      const kv::DeviceBuffer& scratch) const {
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

  std::vector<float> result(const kv::DeviceBuffer& out, size_t size, size_t bytes) const {
    std::vector<unsigned char> raw(bytes + kGuardBytes);
    kv::copy_to_host(raw.data(), out.data(), raw.size(), *stream);
    const auto past_the_end = raw.begin() + static_cast<int64_t>(bytes);
    REQUIRE(std::count(past_the_end, raw.end(), 0xFF) == static_cast<int64_t>(kGuardBytes));
    std::vector<float> values(size);
    std::vector<kv::BFloat16> narrow(size);
    const bool is_narrow = shape.epilogue == kv::Epilogue::kSiluMul;
    std::memcpy(is_narrow ? static_cast<void*>(narrow.data()) : values.data(), raw.data(), bytes);
    return is_narrow ? floats_of(narrow) : values;
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
      const kv::BFloat16 w = weights[part][static_cast<size_t>(output) * x.size() + i];
      sum.value += kv::to_float(w) * x[i];
      sum.magnitude += std::abs(kv::to_float(w) * x[i]);
    }
    return sum;
  }

  static constexpr size_t kGuardBytes = 4096;
  ProductShape shape;
  const kv::Stream* stream;
  std::vector<std::vector<kv::BFloat16>> weights;
  std::vector<float> norm_weight;
  kv::PackedWeights packed;
  kv::DeviceBuffer device_norm;
};

inline std::vector<float> inputs(const ProductShape& c, int rows, uint32_t seed = 3) {
  return random_floats(int64_t{rows} * c.k, seed);
}

}  // namespace kvtest
