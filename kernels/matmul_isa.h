#pragma once

// The CPU matmul's inner part, once per instruction set. matmul.cpp cuts a product into blocks and
// applies the epilogue; a block of dot products is computed by the code of one instruction set, all
// of which give the same bits (see kernels/matmul.h).
//
// The sources matmul_avx512.cpp, matmul_avx2.cpp and matmul_portable.cpp are compiled with the
// flags of their instruction set. They include nothing that holds a function which the linker could
// merge with another file's: merged, code for AVX-512 might run on a machine that has none.

#include <cstdint>

#include "common/dtype.h"

namespace kv {

/// y[row, col] = dot product of x's row and w's row `col`.
struct DotBlock {
  const float* x = nullptr;  // [num_rows, x_stride], 64-byte aligned, zero from k to x_stride
  int64_t x_stride = 0;      // elements; k rounded up to a multiple of 16
  int num_rows = 0;
  const void* w = nullptr;  // [num_cols, k], in the file's dtype, aligned for it alone
  int num_cols = 0;
  int num_w_rows = 0;  // rows from w to the end of W: those after num_cols come next
  int k = 0;
  float* y = nullptr;  // [num_rows, y_stride]
  int64_t y_stride = 0;
  float* scratch = nullptr;  // dot_block_scratch(num_rows) floats, 64-byte aligned
};

/// Columns of W that are unpacked to fp32 together, and how much of K at a time: the piece stays in
/// the first-level cache while all rows of the block pass by.
inline constexpr int kMaxPanelCols = 8;
inline constexpr int kPanelK = 1024;

inline constexpr int64_t dot_block_scratch(int num_rows) {
  return int64_t{kMaxPanelCols} * kPanelK + int64_t{num_rows} * kMaxPanelCols * 16;
}

/// The code of one instruction set.
struct MatmulIsa {
  const char* name;
  void (*dot_block)(const DotBlock& block, DType w_dtype);
  /// The ceiling of dot_block(): multiply-adds in registers that read no memory. Does the
  /// multiply-adds of a tile's step `rounds` times and returns their number. Writing `sum` keeps
  /// the compiler from removing them.
  int64_t (*multiply_adds)(int64_t rounds, float& sum);
};

// Null if the compiler cannot make it. The caller asks whether the machine can run it.
const MatmulIsa* matmul_isa_avx512();
const MatmulIsa* matmul_isa_avx2();
const MatmulIsa* matmul_isa_portable();

}  // namespace kv
