// Weights as the tensor cores read them: rounded, padded, stacked.

#include <doctest/doctest.h>

#include <vector>

#include "kernels/pack_weights.h"
#include "tests/kernels/matmul_product.h"

using kv::BFloat16;
using kv::Device;
using kv::DType;
using kv::Matrix;
using kv::Stream;
using kvtest::random_floats;
using kvtest::rounded;

TEST_CASE("pack_weights: fp16 and fp32 weights are rounded to nearest even" *
          doctest::test_suite("any_order")) {
  const Stream stream(Device::kCuda);
  const int n = 37;
  const int k = 72;
  std::vector<float> exact = random_floats(n * k, 5);
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

TEST_CASE("pack_weights: stacked parts are one matrix" * doctest::test_suite("any_order")) {
  const Stream stream(Device::kCuda);
  const std::vector<BFloat16> values = rounded(random_floats(33 * 40, 5));
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
