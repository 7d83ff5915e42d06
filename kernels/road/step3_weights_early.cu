// Step 3: weights in flight before the input exists. In a decode step a hundred small products
// follow each other. Each waits for the one before it, but only its input has to. With programmatic
// dependent launch (kernels/launch.cuh) this kernel starts while its predecessor still runs, loads
// its weights, and only then waits.
//
// Must be read and done: as in step 1.
//
// The limit: with one row, only what fits in the registers can be loaded early. With many rows
// nothing has changed against step 2.
//
//   warp     output 4 blockIdx.x + warp of row blockIdx.y
//   lane     pieces lane, lane + 32, ...: the first eight of the matrix in registers, 4 KB a warp

#include "kernels/road/road.cuh"

namespace kv::road {
namespace {

constexpr int kWarps = 4;
constexpr int kEarly = 8;  // pieces that a lane loads early

/// Grid: (outputs / 4, rows).
__global__ void __launch_bounds__(32 * kWarps) weights_early_kernel(Product p) {
  let_successors_start();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int output = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y);
  const bool valid = output < p.num_outputs;
  const auto* x = reinterpret_cast<const uint4*>(p.x_row(row));
  const auto* weight = reinterpret_cast<const uint4*>(p.weight_row(valid ? output : 0));
  const int pieces = p.k / 8;
  uint4 early[kEarly];
#pragma unroll
  for (int i = 0; i < kEarly; ++i) {
    const int piece = lane + 32 * i;
    early[i] = piece < pieces ? weight[piece] : uint4{0, 0, 0, 0};
  }
  wait_for_predecessors();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEarly; ++i) {
    const int piece = lane + 32 * i;
    if (piece < pieces) sum = dot_8(x[piece], early[i], sum);
  }
  for (int i = lane + 32 * kEarly; i < pieces; i += 32) sum = dot_8(x[i], weight[i], sum);
  sum = warp_sum(sum);
  if (lane == 0 && valid) p.out[row * p.out_stride + output] = sum;
}

}  // namespace

void weights_early(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kWarps), static_cast<unsigned>(p.num_rows));
  launch_dependent(weights_early_kernel, {grid, dim3(32 * kWarps), 0, "launching weights_early"},
                   stream, p);
}

}  // namespace kv::road
