// Step 2: a warp for each output of each row. Its lanes read neighbouring pieces of 16 bytes, so a
// load brings 512 bytes of one row of the matrix, and all of them are used; at the end the lanes
// add up their sums.
//
// Must be read and done: as in step 1.
//
// The limit: with one row, the bytes in flight, and the start of the kernel. With many rows, every
// weight is read again for each row.
//
//   warp     output 4 blockIdx.x + warp of row blockIdx.y
//   lane     pieces lane, lane + 32, ... of the two rows: eight elements each

#include "kernels/road/road.cuh"

namespace kv::road {
namespace {

constexpr int kWarps = 4;

/// Grid: (outputs / 4, rows).
__global__ void __launch_bounds__(32 * kWarps) one_warp_kernel(Product p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int output = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y);
  if (output >= p.num_outputs) return;
  const auto* x = reinterpret_cast<const uint4*>(p.x_row(row));
  const auto* weight = reinterpret_cast<const uint4*>(p.weight_row(output));
  float sum = 0.0f;
#pragma unroll 4
  for (int i = lane; i < p.k / 8; i += 32) sum = dot_8(x[i], weight[i], sum);
  sum = warp_sum(sum);
  if (lane == 0) p.out[row * p.out_stride + output] = sum;
}

}  // namespace

void one_warp(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kWarps), static_cast<unsigned>(p.num_rows));
  launch(one_warp_kernel, {grid, dim3(32 * kWarps), 0, "launching one_warp"}, stream, p);
}

}  // namespace kv::road
