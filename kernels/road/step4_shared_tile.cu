// Step 4: tiles. A CTA computes 64 outputs of 64 rows. It brings 32 columns at a time of both
// operands to shared memory, where each value is used 64 times. A thread computes 4 x 4 outputs, so
// it uses each value that it reads from shared memory four times.
//
// Must be read: with many rows, each weight once for 64 of them, and each row once for 64 outputs.
// With one row nothing is gained, and 63 of 64 rows are computed in vain.
//
// The limit: with many rows, arithmetic. The fp32 units of an H200 do 67 TFLOP/s, a fifteenth of
// what its tensor cores do, and reading shared memory takes time, too.
//
//   CTA      outputs 64 blockIdx.x .., rows 64 blockIdx.y ..
//   thread   (i, j) = (threadIdx.x % 16, threadIdx.x / 16): outputs 4 i .. 4 i + 3, rows 4 j .. + 3
//   shared   [column][64] floats for each operand: thread (i, j) reads 16 bytes of a column of each

#include "kernels/road/road.cuh"

namespace kv::road {
namespace {

constexpr int kTile = 64;
constexpr int kCols = 32;  // columns at a time
constexpr int kThreads = 256;

/// This thread's piece of the tile: eight columns of one row of the operand. 32 threads have 32
/// rows, so they write to 32 banks.
__device__ void copy_tile(const bf16* row, int col, float (&to)[kCols][kTile]) {
  const int in_tile = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile * 8;
  const uint4 piece = *reinterpret_cast<const uint4*>(row + col + first);
  const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[first + 2 * i][in_tile] = __uint_as_float(words[i] << 16);
    to[first + 2 * i + 1][in_tile] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
}

/// Grid: (outputs / 64, rows / 64).
__global__ void __launch_bounds__(kThreads) shared_tile_kernel(Product p) {
  __shared__ __align__(16) float weight[kCols][kTile];
  __shared__ __align__(16) float x[kCols][kTile];
  const int first_output = static_cast<int>(blockIdx.x) * kTile;
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int i = thread % 16;
  const int j = thread / 16;
  // Rows and outputs past the end are the last one once more; their results are not stored.
  const bf16* weight_row = p.weight_row(min(first_output + thread % kTile, p.num_outputs - 1));
  const bf16* x_row = p.x_row(min(first_row + thread % kTile, p.num_rows - 1));

  float sum[4][4] = {};  // [row][output]
  for (int col = 0; col < p.k; col += kCols) {
    copy_tile(weight_row, col, weight);
    copy_tile(x_row, col, x);
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kCols; ++c) {
      const float4 a = *reinterpret_cast<const float4*>(&x[c][4 * j]);
      const float4 b = *reinterpret_cast<const float4*>(&weight[c][4 * i]);
      const float rows[4] = {a.x, a.y, a.z, a.w};
      const float outputs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int o = 0; o < 4; ++o) sum[r][o] = fmaf(rows[r], outputs[o], sum[r][o]);
      }
    }
    __syncthreads();  // all threads have read the tile
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int o = 0; o < 4; ++o) {
      const int row = first_row + 4 * j + r;
      const int output = first_output + 4 * i + o;
      if (row < p.num_rows && output < p.num_outputs) {
        p.out[row * p.out_stride + output] = sum[r][o];
      }
    }
  }
}

}  // namespace

void shared_tile(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kTile), divide_up(p.num_rows, kTile));
  launch(shared_tile_kernel, {grid, dim3(kThreads), 0, "launching shared_tile"}, stream, p);
}

}  // namespace kv::road
