#pragma once

// Products with many input rows (prefill): tiles of outputs x rows, the same chains as few rows.
//
// A CTA of 8 warps makes (32 kRowTiles) outputs x (32 kColTiles) input rows. Warp (i, j) of 2 x 4
// has kRowTiles 16-output tiles by kColTiles 8-row tiles in registers, twice: the chunk being
// chained from zero, and the total of the chunks before it. K goes by in stages through a ring in
// shared memory; a stage is a chunk. Weights lie there as packed, input rows in row-major tiles of
// 8 x 32, so fragments are read without bank conflicts, ready for use.

#include "kernels/launch.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/stage_ring.cuh"
#include "kernels/tensor_core.cuh"

namespace kv {

inline constexpr int kManyThreads = 256;
inline constexpr int kManyStages = 3;
inline constexpr int kStripPieces = kChunkTiles * 32;  // pieces of 16 bytes: 8 rows of one chunk

template <int kRowTiles, int kColTiles>
struct ManyRowsShape {
  static constexpr int kStrips = 2 * kRowTiles * 2;  // of 8 outputs: 2 warps, 2 strips a tile
  static constexpr int kInputs = 4 * kColTiles;      // of 8 input rows: 4 warps
  static constexpr int kStagePieces = (kStrips + kInputs) * kStripPieces;
  static constexpr size_t kSharedBytes = size_t{16} * kManyStages * kStagePieces;
};

/// Two groups of 128 threads copy every other strip; a thread has the same piece of each. What lies
/// beyond the matrix's rows repeats the last one and is never stored; beyond its columns is zero.
template <int kStrips>
__device__ inline void copy_weights(const ProductArgs& args, uint4* stage, int tiles, int tile) {
  const int piece = static_cast<int>(threadIdx.x) % kStripPieces;
  const bool valid = tile + piece / 32 < tiles;
  const uint4* from = args.weight + (valid ? tile * 32 + piece : 0);
  const int first = static_cast<int>(threadIdx.x) / kStripPieces;
#pragma unroll
  for (int i = first; i < kStrips + first; i += 2) {
    const int strip = min(static_cast<int>(blockIdx.y) * kStrips + i, args.num_strips - 1);
    copy_16(stage + i * kStripPieces + piece, from + static_cast<int64_t>(strip) * tiles * 32,
            valid);
  }
}

/// The same for input rows: piece 32 tile + 4 g + t holds columns 32 tile + 8 t.. of row g.
template <int kInputs>
__device__ inline void copy_inputs(const ProductArgs& args, uint4* stage, int tile) {
  const int piece = static_cast<int>(threadIdx.x) % kStripPieces;
  const int g = piece % 32 / 4;
  const int col = (tile + piece / 32) * kTileCols + piece % 4 * 8;
  const bool valid = col < args.k;
  const auto* from = static_cast<const __nv_bfloat16*>(args.x) + (valid ? col : 0);
  const int first = static_cast<int>(threadIdx.x) / kStripPieces;
#pragma unroll
  for (int i = first; i < kInputs + first; i += 2) {
    const int row = min((static_cast<int>(blockIdx.x) * kInputs + i) * 8 + g, args.num_rows - 1);
    copy_16(stage + i * kStripPieces + piece, from + static_cast<int64_t>(row) * args.k, valid);
  }
}

/// One chunk: acc = weights x inputs over its 128 columns, chained from zero.
template <int kRowTiles, int kColTiles>
__device__ inline void chain_chunk(const uint4* stage, float (&acc)[kRowTiles][kColTiles][4]) {
  using Shape = ManyRowsShape<kRowTiles, kColTiles>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Lane l names row l % 8 of one of the matrices (strip 0, piece 0), (strip 1, piece 0),
  // (strip 0, piece 1), (strip 1, piece 1): the four registers of one step.
  const uint4* weights =
      stage + (warp / 4 * (kRowTiles * 2) + lane / 8 % 2) * kStripPieces + lane / 16 * 8 + lane % 8;
  const uint4* inputs = stage + (Shape::kStrips + warp % 4 * kColTiles) * kStripPieces + lane;
#pragma unroll
  for (int tile = 0; tile < kChunkTiles; ++tile) {
    uint4 b[kColTiles];
#pragma unroll
    for (int n = 0; n < kColTiles; ++n) b[n] = inputs[n * kStripPieces + tile * 32];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      uint32_t a[2][4];
      load_matrices(a[0], weights + 2 * m * kStripPieces + tile * 32);
      load_matrices(a[1], weights + 2 * m * kStripPieces + tile * 32 + 16);
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) mma_step(acc[m][n], a[0], b[n].x, b[n].y);
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) mma_step(acc[m][n], a[1], b[n].z, b[n].w);
    }
  }
}

// Grid: (input rows / (32 kColTiles), outputs / (32 kRowTiles)). Lane 4 g + t of a warp ends with
// outputs g and g + 8 of each 16-output tile for input rows 2 t and 2 t + 1 of each 8-row tile.
template <int kRowTiles, int kColTiles>
__global__ void __launch_bounds__(kManyThreads) many_rows_kernel(const ProductArgs args) {
  using Shape = ManyRowsShape<kRowTiles, kColTiles>;
  constexpr int kInputsAt = Shape::kStrips * kStripPieces;
  extern __shared__ __align__(128) uint4 ring[];
  let_successors_start();
  const int tiles = tiles_per_strip(args.k);
  const int num_chunks = (tiles + kChunkTiles - 1) / kChunkTiles;

  // Weights of the first stages need no predecessor. They belong to the first group of copies.
  for (int s = 0; s < kManyStages - 1; ++s) {
    copy_weights<Shape::kStrips>(args, ring + s * Shape::kStagePieces, tiles, s * kChunkTiles);
  }
  wait_for_predecessors();
  for (int s = 0; s < kManyStages - 1; ++s) {
    copy_inputs<Shape::kInputs>(args, ring + s * Shape::kStagePieces + kInputsAt, s * kChunkTiles);
    commit_copies();
  }

  float total[kRowTiles][kColTiles][4] = {};
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    wait_for_copies<kManyStages - 2>();
    __syncthreads();  // this stage is there for all, and the one before is no longer read
    const int next = chunk + kManyStages - 1;
    if (next < num_chunks) {
      uint4* stage = ring + next % kManyStages * Shape::kStagePieces;
      copy_weights<Shape::kStrips>(args, stage, tiles, next * kChunkTiles);
      copy_inputs<Shape::kInputs>(args, stage + kInputsAt, next * kChunkTiles);
    }
    commit_copies();  // also when empty: the count of groups is what wait_for_copies goes by
    float acc[kRowTiles][kColTiles][4] = {};
    chain_chunk(ring + chunk % kManyStages * Shape::kStagePieces, acc);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[m][n][i] += acc[m][n][i];
      }
    }
  }

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_strip = static_cast<int>(blockIdx.y) * Shape::kStrips + warp / 4 * kRowTiles * 2;
  const int first_row = (static_cast<int>(blockIdx.x) * Shape::kInputs + warp % 4 * kColTiles) * 8;
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
