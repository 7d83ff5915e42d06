// Step 5: tensor cores. One instruction of a warp multiplies 16 x 16 weights by 16 x 8 inputs:
// 2,048 multiply-adds, where step 4's does 32. (step5_tensor_cores.cuh is the arithmetic.)
//
// Must be read: with many rows each weight once for 128 of them.
//
// The limit: feeding them. While the next 64 columns come from memory, through registers into
// shared memory, no warp computes. Reading shared memory takes as long as the instructions. With
// one row 127 of 128 rows are computed in vain, and only one CTA for 128 outputs reads weights.
//
//   CTA      outputs 128 blockIdx.x .., rows 128 blockIdx.y ..
//   thread   copies 8 pieces of 16 bytes for each 64 columns; a warp has 64 outputs x 32 rows

#include "kernels/road/step5_tensor_cores.cuh"

namespace kv::road {
namespace {

/// Grid: (outputs / 128, rows / 128).
__global__ void __launch_bounds__(kThreads) tensor_cores_kernel(Product p) {
  __shared__ Stage stage;
  WarpTile tile;
  for (int col = 0; col < p.k; col += kCols) {
    for_each_copy(p, col, stage,
                  [](const bf16* from, uint4* to) { *to = *reinterpret_cast<const uint4*>(from); });
    __syncthreads();
    tile.add(stage);
    __syncthreads();  // all threads have read the stage
  }
  tile.store(p);
}

}  // namespace

void tensor_cores(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kTile), divide_up(p.num_rows, kTile));
  launch(tensor_cores_kernel, {grid, dim3(kThreads), 0, "launching tensor_cores"}, stream, p);
}

}  // namespace kv::road
