// Step 6: copies ahead. cp.async copies to shared memory in the background, past the registers.
// With a ring of three stages the next two are in flight while the warps compute on this one.
//
// Must be read: with many rows each weight once for 128 of them.
//
// The limit: with many rows, reading shared memory: 6 KB for 16 instructions of a warp. With one
// row, as in step 5. The engine's weights are packed in the order in which tensor cores take them,
// and its tiles share the work out differently.
//
//   CTA      outputs 128 blockIdx.x .., rows 128 blockIdx.y ..
//   ring     [3] stages of 36 KB; one barrier for each stage

#include "kernels/road/step5_tensor_cores.cuh"

namespace kv::road {
namespace {

constexpr int kStages = 3;

/// Grid: (outputs / 128, rows / 128).
__global__ void __launch_bounds__(kThreads) copies_ahead_kernel(Product p) {
  extern __shared__ Stage ring[];
  const auto start_copies = [&](int stage) {
    if (stage * kCols < p.k) {
      for_each_copy(p, stage * kCols, ring[stage % kStages],
                    [](const bf16* from, uint4* to) { copy_16(to, from, true); });
    }
    commit_copies();  // also when empty, because the wait counts groups
  };
  for (int stage = 0; stage < kStages - 1; ++stage) start_copies(stage);
  WarpTile tile;
  for (int stage = 0; stage * kCols < p.k; ++stage) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // this stage has arrived, and the one before has been read
    start_copies(stage + kStages - 1);
    tile.add(ring[stage % kStages]);
  }
  tile.store(p);
}

}  // namespace

void copies_ahead(const MatmulArgs& args, const Stream& stream) {
  const Product p = product_of(args);
  const dim3 grid(divide_up(p.num_outputs, kTile), divide_up(p.num_rows, kTile));
  constexpr int kBytes = kStages * static_cast<int>(sizeof(Stage));
  [[maybe_unused]] static const bool ready = ask_for_shared(copies_ahead_kernel, kBytes);
  launch(copies_ahead_kernel, {grid, dim3(kThreads), kBytes, "launching copies_ahead"}, stream, p);
}

}  // namespace kv::road
