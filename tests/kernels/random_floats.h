#pragma once

// Inputs of kernel tests: values and the matrices that store them.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "kernels/matmul.h"
#include "tests/support/random_model.h"

namespace kvtest {

inline std::vector<float> random_floats(int64_t n, uint64_t seed, float scale = 1.0f) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = normal(rng);
  return values;
}

/// A random matrix as a file would hold it. Its values have 8 significant bits and exponents from
/// 2^-14 on, so that bf16, fp16 and fp32 hold the same numbers.
struct StoredMatrix {
  StoredMatrix(const std::string& dtype, int num_rows, int num_cols, uint64_t seed,
               float scale = 1.0f)
      : rows(num_rows), cols(num_cols) {
    values = random_floats(int64_t{rows} * cols, seed, scale);
    for (float& v : values) {
      v = kv::to_float(kv::to_bfloat16(v));
      if (v < 0x1p-14f && v > -0x1p-14f) v = 0.0f;
    }
    type = dtype == "F32" ? kv::DType::kF32 : dtype == "F16" ? kv::DType::kF16 : kv::DType::kBF16;
    bytes = make_tensor(dtype, {rows, cols}, values).bytes;
  }

  kv::Matrix view() const { return {bytes.data(), type, rows, cols}; }

  int rows;
  int cols;
  kv::DType type;
  std::vector<float> values;     // what `bytes` holds
  std::vector<std::byte> bytes;  // exactly as long as the matrix: reading past it is an error
};

}  // namespace kvtest
