#pragma once

// The arguments of both product kernels, and what happens to a finished sum.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/matmul.h"
#include "kernels/pack_weights.cuh"

namespace kv {

/// MatmulArgs in the form that the kernels need.
struct ProductArgs {
  const uint4* weight = nullptr;  // packed, 16 bytes a lane
  const void* x = nullptr;        // bf16 [num_rows, k]; fp32 with norm_weight. k is a multiple of 8
  const float* norm_weight = nullptr;  // [k] or null
  float norm_eps = 0.0f;
  void* out = nullptr;
  int64_t out_stride = 0;
  int num_rows = 0;
  int k = 0;
  int num_strips = 0;   // of 8 weight rows, even
  int num_outputs = 0;  // width of out
  Epilogue epilogue = Epilogue::kStore;
};

/// The product is rounded to bf16 (2^-9), so the fast exponential and division (2^-20) are enough.
__device__ inline float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

/// Finishes one input row's sums of output g of strip `strip` and, if has_hi, of the strip after
/// it. For kSiluMul these are a gate and its up; g = lane / 4. `old_*` is what kAdd adds to.
__device__ inline void store_sums(const ProductArgs& args, int strip, bool has_hi, int row,
                                  float lo, float hi, float old_lo, float old_hi) {
  if (row >= args.num_rows) return;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int64_t line = row * args.out_stride;
  if (args.epilogue == Epilogue::kSiluMul) {
    const int output = strip / 2 * kTileRows + g;
    if (output >= args.num_outputs) return;
    static_cast<__nv_bfloat16*>(args.out)[line + output] = __float2bfloat16_rn(silu(lo) * hi);
    return;
  }
  float* out = static_cast<float*>(args.out) + line;
  const int output = strip * kTileRows + g;
  if (output < args.num_outputs) out[output] = old_lo + lo;
  if (has_hi && output + kTileRows < args.num_outputs) out[output + kTileRows] = old_hi + hi;
}

/// Returns the present value of `out` if the epilogue adds to it, else zero. Same arguments as
/// store_sums.
__device__ inline float old_output(const ProductArgs& args, int strip, int row) {
  const int output = strip * kTileRows + static_cast<int>(threadIdx.x) % 32 / 4;
  const bool adds = args.epilogue == Epilogue::kAdd;
  if (!adds || row >= args.num_rows || output >= args.num_outputs) return 0.0f;
  return static_cast<const float*>(args.out)[row * args.out_stride + output];
}

}  // namespace kv
