#pragma once

// A CTA's tile on the tensor cores: the arithmetic of steps 5 and 6.
//
// 128 outputs x 128 rows, 64 columns at a time. In shared memory a row of either operand is 128
// bytes at a pitch of 144: ldmatrix takes 16 bytes of eight rows at once, and they are in different
// banks. Eight warps, 2 x 4: warp (i, j) has outputs 64 i .. + 63 of rows 32 j .. + 31, as 4 x 4
// results of one instruction, mma.m16n8k16 (kernels/tensor_core.cuh), with the weights as the tall
// operand. Lane 4 g + t has of each result the outputs g and g + 8 of the rows 2 t and 2 t + 1.

#include "kernels/road/road.cuh"
#include "kernels/tensor_core.cuh"

namespace kv::road {

inline constexpr int kTile = 128;
inline constexpr int kCols = 64;              // columns at a time
inline constexpr int kRowPieces = kCols / 8;  // pieces of 16 bytes
inline constexpr int kPitch = kRowPieces + 1;
inline constexpr int kThreads = 256;
inline constexpr int kCopies = 2 * kTile * kRowPieces / kThreads;  // pieces of a thread

/// 64 columns of both operands.
struct Stage {
  uint4 weight[kTile * kPitch];
  uint4 x[kTile * kPitch];
};

/// Calls take(from, place in the stage) for each piece that this thread copies. Rows and outputs
/// past the end are the last one once more; their results are not stored.
template <class Take>
__device__ inline void for_each_copy(const Product& p, int col, Stage& stage, const Take& take) {
  const int piece = static_cast<int>(threadIdx.x) % kRowPieces;
  const int first = static_cast<int>(threadIdx.x) / kRowPieces;
  const int first_output = static_cast<int>(blockIdx.x) * kTile;
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
#pragma unroll
  for (int i = 0; i < kCopies / 2; ++i) {
    const int row = first + i * (kThreads / kRowPieces);
    const bf16* weight = p.weight_row(min(first_output + row, p.num_outputs - 1));
    const bf16* x = p.x_row(min(first_row + row, p.num_rows - 1));
    take(weight + col + 8 * piece, &stage.weight[row * kPitch + piece]);
    take(x + col + 8 * piece, &stage.x[row * kPitch + piece]);
  }
}

struct WarpTile {
  float sum[4][4][4] = {};  // [16 outputs][8 rows][of a lane]

  /// Adds the stage's 64 columns, 16 at a time.
  __device__ void add(const Stage& stage) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // ldmatrix: lane l names row l % 8 of matrix l / 8. The four of the weights are outputs 0-7 and
    // 8-15 of eight columns, then of the next eight; those of x are rows 0-7 of eight columns and
    // of the next eight, then rows 8-15.
    const uint4* weight = stage.weight + (warp / 4 * 64 + lane % 16) * kPitch + lane / 16;
    const uint4* x = stage.x + (warp % 4 * 32 + lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < kCols / 16; ++step) {
      uint32_t a[4][4];
      uint32_t b[2][4];
#pragma unroll
      for (int m = 0; m < 4; ++m) load_matrices(a[m], weight + 16 * m * kPitch + 2 * step);
#pragma unroll
      for (int n = 0; n < 2; ++n) load_matrices(b[n], x + 16 * n * kPitch + 2 * step);
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          mma_step(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
      }
    }
  }

  __device__ void store(const Product& p) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int output =
              static_cast<int>(blockIdx.x) * kTile + warp / 4 * 64 + 16 * m + i / 2 * 8 + g;
          const int row =
              static_cast<int>(blockIdx.y) * kTile + warp % 4 * 32 + 8 * n + 2 * t + i % 2;
          if (row < p.num_rows && output < p.num_outputs) {
            p.out[row * p.out_stride + output] = sum[m][n][i];
          }
        }
      }
    }
  }
};

}  // namespace kv::road
