#pragma once

// Attention over FP8 pages by the fast kernel, against a kernel for bf16 over the decoded numbers.

#include <cstdint>
#include <vector>

namespace kernels_test {

enum class Codes {
  kOrdinary,  // all codes, one scale
  kWild,      // mostly subnormal numbers, zeros and small ones, scales from 2^-22 to 2
  kExtreme    // the same with the largest and the smallest scales
};

struct Fp8Case {
  std::vector<int32_t> seq_lens;
  int block_size = 16;
  int num_heads = 16;  // of queries; there are 8 KV heads of 128
  int rows = 1;        // queries of each sequence
  Codes codes = Codes::kOrdinary;
};

/// Elements of the output whose bits differ, over `launches` launches.
int64_t fp8_differences(const Fp8Case& of, int launches);

}  // namespace kernels_test
