#pragma once

// Products with many input rows (prefill): tiles of outputs x rows, the same chains as few rows.
//
// A CTA of 8 warps makes (32 kRowTiles) outputs x (32 kColTiles) input rows. Warp (i, j) of 2 x 4
// has kRowTiles 16-output tiles by kColTiles 8-row tiles in registers, twice: the chunk being
// chained from zero, and the total of the chunks before it. K goes by in stages of 64 columns
// through a ring in shared memory, two stages a chunk. Weights lie there as packed, input rows in
// the same tiles of 8 x 32, so every fragment is one 16-byte read without bank conflicts.

#include "kernels/launch.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/tensor_core.cuh"

namespace kv {

inline constexpr int kManyThreads = 256;
inline constexpr int kManyStages = 4;
inline constexpr int kStageTiles = 2;  // tiles of 32 columns in a stage; two stages make a chunk
static_assert(2 * kStageTiles == kChunkTiles);

template <int kRowTiles, int kColTiles>
struct ManyRowsShape {
  static constexpr int kStrips = 2 * kRowTiles * 2;  // of 8 outputs: 2 warps, 2 strips a tile
  static constexpr int kInputTiles = 4 * kColTiles;  // of 8 input rows: 4 warps
  static constexpr int kWeightPieces = kStrips * kStageTiles * 32;  // of 16 bytes, in a stage
  static constexpr int kInputPieces = kInputTiles * kStageTiles * 32;
  static constexpr int kStagePieces = kWeightPieces + kInputPieces;
  static constexpr size_t kSharedBytes = size_t{16} * kManyStages * kStagePieces;
};

/// Starts copying one stage's weights; beyond the matrix comes zero.
template <typename Shape>
__device__ inline void copy_weights(const ProductArgs& args, uint4* stage, int tiles, int tile) {
  const int first_strip = static_cast<int>(blockIdx.y) * Shape::kStrips;
#pragma unroll
  for (int i = 0; i < Shape::kWeightPieces / kManyThreads; ++i) {
    const int piece = static_cast<int>(threadIdx.x) + i * kManyThreads;
    const int strip = first_strip + piece / (kStageTiles * 32);
    const int offset = piece % (kStageTiles * 32);
    const bool valid = strip < args.num_strips && tile + offset / 32 < tiles;
    const int64_t from = (static_cast<int64_t>(strip) * tiles + tile) * 32 + offset;
    copy_16(stage + piece, args.weight + (valid ? from : 0), valid);
  }
}

/// The same for the input rows: piece (8 rows, tile, lane 4 g + t) is columns 8 t.. of row g.
template <typename Shape>
__device__ inline void copy_inputs(const ProductArgs& args, uint4* stage, int tile) {
  const int first_row = static_cast<int>(blockIdx.x) * Shape::kInputTiles * 8;
  const auto* x = static_cast<const __nv_bfloat16*>(args.x);
#pragma unroll
  for (int i = 0; i < Shape::kInputPieces / kManyThreads; ++i) {
    const int piece = static_cast<int>(threadIdx.x) + i * kManyThreads;
    const int lane = piece % 32;
    const int row = first_row + piece / (kStageTiles * 32) * 8 + lane / 4;
    const int col = (tile + piece / 32 % kStageTiles) * kTileCols + lane % 4 * 8;
    const bool valid = row < args.num_rows && col < args.k;
    const int64_t from = static_cast<int64_t>(row) * args.k + col;
    copy_16(stage + Shape::kWeightPieces + piece, x + (valid ? from : 0), valid);
  }
}

/// One stage of chains: acc += weights x inputs over 64 columns.
template <int kRowTiles, int kColTiles>
__device__ inline void chain_stage(const uint4* stage, float (&acc)[kRowTiles][kColTiles][4]) {
  using Shape = ManyRowsShape<kRowTiles, kColTiles>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint4* weights = stage + warp / 4 * (kRowTiles * 2) * kStageTiles * 32 + lane;
  const uint4* inputs =
      stage + Shape::kWeightPieces + warp % 4 * kColTiles * kStageTiles * 32 + lane;
#pragma unroll
  for (int tile = 0; tile < kStageTiles; ++tile) {
    uint4 b[kColTiles];
#pragma unroll
    for (int n = 0; n < kColTiles; ++n) b[n] = inputs[(n * kStageTiles + tile) * 32];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const uint4 lo = weights[((2 * m) * kStageTiles + tile) * 32];
      const uint4 hi = weights[((2 * m + 1) * kStageTiles + tile) * 32];
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
        mma_step(acc[m][n], lo.x, hi.x, lo.y, hi.y, b[n].x, b[n].y);
      }
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
        mma_step(acc[m][n], lo.z, hi.z, lo.w, hi.w, b[n].z, b[n].w);
      }
    }
  }
}

/// A chunk is done: into the total, and start again from zero.
template <int kRowTiles, int kColTiles>
__device__ inline void end_chunk(float (&acc)[kRowTiles][kColTiles][4],
                                 float (&total)[kRowTiles][kColTiles][4]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[m][n][i] += acc[m][n][i];
        acc[m][n][i] = 0.0f;
      }
    }
  }
}

// Grid: (input rows / (32 kColTiles), outputs / (32 kRowTiles)). Lane 4 g + t of a warp ends with
// outputs g and g + 8 of each 16-output tile for input rows 2 t and 2 t + 1 of each 8-row tile.
template <int kRowTiles, int kColTiles>
__global__ void __launch_bounds__(kManyThreads) many_rows_kernel(const ProductArgs args) {
  using Shape = ManyRowsShape<kRowTiles, kColTiles>;
  extern __shared__ __align__(128) uint4 ring[];
  let_successors_start();
  const int tiles = tiles_per_strip(args.k);
  const int num_stages = (tiles + kStageTiles - 1) / kStageTiles;

  // Weights of the first stages need no predecessor. They belong to the first group of copies.
  for (int s = 0; s < kManyStages - 1; ++s) {
    copy_weights<Shape>(args, ring + s * Shape::kStagePieces, tiles, s * kStageTiles);
  }
  wait_for_predecessors();
  for (int s = 0; s < kManyStages - 1; ++s) {
    copy_inputs<Shape>(args, ring + s * Shape::kStagePieces, s * kStageTiles);
    commit_copies();
  }

  float acc[kRowTiles][kColTiles][4] = {};
  float total[kRowTiles][kColTiles][4] = {};
  for (int s = 0; s < num_stages; ++s) {
    wait_for_copies<kManyStages - 2>();
    __syncthreads();  // stage s is there for all, and stage s - 1 is no longer read
    const int next = s + kManyStages - 1;
    if (next < num_stages) {
      uint4* stage = ring + next % kManyStages * Shape::kStagePieces;
      copy_weights<Shape>(args, stage, tiles, next * kStageTiles);
      copy_inputs<Shape>(args, stage, next * kStageTiles);
    }
    commit_copies();  // also when empty: the count of groups is what wait_for_copies goes by
    chain_stage(ring + s % kManyStages * Shape::kStagePieces, acc);
    if (s % 2 == 1 || s + 1 == num_stages) end_chunk(acc, total);
  }

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_strip = static_cast<int>(blockIdx.y) * Shape::kStrips + warp / 4 * kRowTiles * 2;
  const int first_row =
      (static_cast<int>(blockIdx.x) * Shape::kInputTiles + warp % 4 * kColTiles) * 8;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int strip = first_strip + 2 * m;
        const int row = first_row + n * 8 + 2 * t + i;
        store_sums(args, strip, true, row, total[m][n][i], total[m][n][i + 2],
                   old_output(args, strip, row), old_output(args, strip + 1, row));
      }
    }
  }
}

}  // namespace kv
