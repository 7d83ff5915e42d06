#pragma once

// out = epilogue( norm(x) * W^T ): every matrix product of the model.
//
// The arithmetic contract: each output element is one reduction over K in an order that depends on
// K alone. It never depends on how many rows the pass has, how many threads work, or which tile the
// element falls in. This is why the model's own pass does not use a BLAS.
//
//   CPU   16 partial sums, lane i taking k = i, i + 16, i + 32, ... in ascending order with fused
//         multiply-add; then a fixed tree over the 16 lanes. fp32 throughout; weights are read in
//         the file's own type. The bits are the same for every instruction set.
//   CUDA  K in fixed chunks. A chunk is a chain of tensor-core steps of 16 columns from zero; the
//         chunks' sums are added in ascending order in fp32. Steps of a warp (mma.sync) and of a
//         warpgroup (wgmma) over the same columns have the same bits.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/device.h"

namespace kv {

/// A weight matrix [rows, cols], row-major as in the file: out = W x has `rows` outputs.
/// On CUDA `data` is in the layout of pack_weights().
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::kBF16;
  int rows = 0;
  int cols = 0;
};

enum class Epilogue {
  kStore,    // out = y                      out: fp32 [rows, out_stride]
  kAdd,      // out += y                     out: fp32 [rows, out_stride] (the residual stream)
  kSiluMul,  // out = silu(gate) * up        out: activation dtype [rows, out_stride]
};

struct MatmulArgs {
  /// Input rows [num_rows, k]. With norm_weight: fp32 (the residual stream). Without: activation
  /// dtype.
  const void* x = nullptr;
  int num_rows = 0;
  int k = 0;
  /// Optional fused RMSNorm over the k inputs: x * rsqrt(mean(x^2) + eps) * norm_weight, fp32 [k].
  const float* norm_weight = nullptr;
  float norm_eps = 0.0f;
  /// The matrix, in up to three parts stacked by rows: {q, k, v}, {gate, up} for kSiluMul, or one.
  /// On CUDA the parts were stacked when they were packed, so there is always one.
  std::span<const Matrix> weight;
  Epilogue epilogue = Epilogue::kStore;
  void* out = nullptr;
  int64_t out_stride = 0;  // elements between rows of out
  /// CUDA: matmul_scratch_bytes() bytes, for normalised or re-aligned input rows. The CPU needs
  /// none.
  void* scratch = nullptr;
};

/// Scratch that a product of `num_rows` rows over `k` columns may need.
inline size_t matmul_scratch_bytes(Device device, int num_rows, int k) {
  if (device == Device::kCpu) return 0;
  const size_t padded = (static_cast<size_t>(k) + 127) / 128 * 128;
  return static_cast<size_t>(num_rows) * padded * size_of(DType::kBF16);
}

void matmul_cpu(const MatmulArgs& args);
void matmul_cuda(const MatmulArgs& args, const Stream& stream);
/// matmul_cuda() without warpgroups, as GPUs other than Hopper run it. Gives the same bits.
void matmul_by_warps_cuda(const MatmulArgs& args, const Stream& stream);
inline void matmul(const MatmulArgs& args, const Stream& stream) {
  KV_DISPATCH(matmul, args, stream);
}

}  // namespace kv
