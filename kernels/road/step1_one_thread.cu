// Step 1: a thread for each output of each row. It is the loop of the definition.
//
// Must be read: the weights once, 2 k bytes for each output, and the rows. Must be done: k
// multiply-adds for each output of each row.
//
// The limit: neighbouring threads read neighbouring rows of the matrix, 2 k bytes apart. A warp's
// load of 64 bytes touches 32 sectors of 32 bytes, and the cache has to keep them for the next 15
// steps. With many rows it is two loads for each multiply-add.
//
//   thread   output 128 blockIdx.x + threadIdx.x of row blockIdx.y

#include "kernels/road/road.cuh"

namespace kv::road {
namespace {

constexpr int kThreads = 128;

/// Grid: (outputs / 128, rows).
__global__ void one_thread_kernel(Product p) {
  const int output = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (output >= p.num_outputs) return;
  const bf16* x = p.x_row(row);
  const bf16* weight = p.weight_row(output);
  float sum = 0.0f;
  for (int i = 0; i < p.k; ++i) {
    sum = fmaf(__bfloat162float(x[i]), __bfloat162float(weight[i]), sum);
  }
  p.out[row * p.out_stride + output] = sum;
}

}  // namespace

void one_thread(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kThreads), static_cast<unsigned>(p.num_rows));
  launch(one_thread_kernel, {grid, dim3(kThreads), 0, "launching one_thread"}, stream, p);
}

}  // namespace kv::road
