#pragma once

// Shared by the steps: the arguments of a kernel, and eight elements at a time.

#include <cuda_bf16.h>

#include <stdexcept>

#include "kernels/launch.cuh"
#include "kernels/road/road.h"
#include "kernels/warp.cuh"

namespace kv::road {

using bf16 = __nv_bfloat16;

struct Product {
  const bf16* x;       // [num_rows, k]
  const bf16* weight;  // [num_outputs, k]
  float* out;          // [num_rows, out_stride]
  int64_t out_stride;
  int num_rows, num_outputs, k;

  __device__ const bf16* x_row(int row) const { return x + int64_t{row} * k; }
  __device__ const bf16* weight_row(int output) const { return weight + int64_t{output} * k; }
};

/// Throws std::invalid_argument for a product that the steps do not support.
inline Product product_of(const MatmulArgs& args) {
  if (args.weight.size() != 1 || args.weight[0].dtype != DType::kBF16 ||
      args.weight[0].cols != args.k || args.k % 64 != 0 || args.norm_weight != nullptr ||
      args.epilogue != Epilogue::kStore) {
    throw std::invalid_argument(
        "the road: wanted one bf16 matrix with k columns, k a multiple of 64, kStore and no norm");
  }
  return {.x = static_cast<const bf16*>(args.x),
          .weight = static_cast<const bf16*>(args.weight[0].data),
          .out = static_cast<float*>(args.out),
          .out_stride = args.out_stride,
          .num_rows = args.num_rows,
          .num_outputs = args.weight[0].rows,
          .k = args.k};
}

inline unsigned divide_up(int a, int b) { return static_cast<unsigned>((a + b - 1) / b); }

/// The eight products of two pieces of 16 bytes, added to `sum`.
__device__ inline float dot_8(const uint4& a, const uint4& b, float sum) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w};
  const uint32_t y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), sum);
    sum = fmaf(__uint_as_float(x[i] & 0xFFFF0000u), __uint_as_float(y[i] & 0xFFFF0000u), sum);
  }
  return sum;
}

}  // namespace kv::road
