#pragma once

// Products with many input rows (prefill): tiles of outputs x rows, the same chains as few rows.
//
// A CTA has kOutputWarps x 4 warps. Warp (i, j) has kRowTiles 16-output tiles by kColTiles 8-row
// tiles in registers, twice: the current chunk, chained from zero, and the total of the chunks
// before it. K passes through a ring in shared memory in stages; a stage is a chunk. The loop is
// bound by writing and reading shared memory: 128 outputs x 128 rows need 64 KB a chunk.
//
// In a stage weights lie as packed. An input row is 256 bytes at a pitch of 320, so that the
// fragments of two rows are in different banks.

#include "kernels/launch.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/stage_ring.cuh"
#include "kernels/tensor_core.cuh"

namespace kv {

inline constexpr int kMaxManyStages = 3;
inline constexpr int kStripPieces = kChunkTiles * 32;   // pieces of 16 bytes: 8 rows of one chunk
inline constexpr int kRowPieces = kChunkCols * 2 / 16;  // of one input row, in a chunk
inline constexpr int kRowPitch = kRowPieces + 4;

template <int kRowTiles_, int kColTiles_, int kOutputWarps_>
struct ManyRowsShape {
  static constexpr int kRowTiles = kRowTiles_, kColTiles = kColTiles_;
  static constexpr int kOutputWarps = kOutputWarps_;
  static constexpr int kThreads = kOutputWarps * 4 * 32;
  static constexpr int kStrips = kOutputWarps * kRowTiles * 2;  // of 8 outputs, 2 a tile
  static constexpr int kRows = 4 * kColTiles * 8;               // input rows: 4 warps
  static constexpr int kStagePieces = kStrips * kStripPieces + kRows * kRowPitch;
  static constexpr int kWeightCopies = kStrips * kStripPieces / kThreads;  // per thread
  static constexpr int kInputCopies = kRows * kRowPieces / kThreads;
  static constexpr int kStageBytes = 16 * kStagePieces;
};

/// A place in the sequence of stages that a CTA works through: the chunks of its first tile of
/// outputs x rows, then of its next one. The pipeline does not drain between tiles.
struct StageCursor {
  int tile = 0;  // of outputs x rows: row tiles change fastest
  int chunk = 0;
  int first_strip = 0;
  int first_row = 0;
};

template <typename Shape>
__device__ inline void enter_tile(const ProductArgs& args, int tile, StageCursor& at) {
  const int row_tiles = (args.num_rows + Shape::kRows - 1) / Shape::kRows;
  at.tile = tile;
  at.chunk = 0;
  at.first_strip = tile / row_tiles * Shape::kStrips;
  at.first_row = tile % row_tiles * Shape::kRows;
}

template <typename Shape>
__device__ inline void advance(const ProductArgs& args, int num_chunks, StageCursor& at) {
  if (++at.chunk == num_chunks) {
    enter_tile<Shape>(args, at.tile + static_cast<int>(gridDim.x), at);
  }
}

/// Copies part `part` of kParts of a stage's weights: strips thread / 128, 2 further on, ... Strips
/// beyond the matrix repeat the last one; their results are never stored.
template <typename Shape, int kParts>
__device__ inline void copy_weights(const ProductArgs& args, const StageCursor& at, uint4* stage,
                                    int part) {
  const int thread = static_cast<int>(threadIdx.x);
  const int strip_pieces = tiles_per_strip(args.k) * 32;
  const uint4* from = args.weight + static_cast<int64_t>(at.first_strip) * strip_pieces +
                      at.chunk * kStripPieces + thread % kStripPieces;
  const int last = args.num_strips - 1 - at.first_strip;
#pragma unroll
  for (int i = 0; i < Shape::kWeightCopies; ++i) {
    if (i % kParts != part % kParts) continue;
    const int strip = min(thread / kStripPieces + i * (Shape::kThreads / kStripPieces), last);
    copy_16(stage + thread + i * Shape::kThreads, from + static_cast<int64_t>(strip) * strip_pieces,
            true);
  }
}

/// The same for its input rows: rows thread / 16, 16 further on, ... K is a whole number of chunks.
template <typename Shape, int kParts>
__device__ inline void copy_inputs(const ProductArgs& args, const StageCursor& at, uint4* stage,
                                   int part) {
  const int thread = static_cast<int>(threadIdx.x);
  const int row_pieces = args.k / 8;
  const uint4* from = static_cast<const uint4*>(args.x) +
                      static_cast<int64_t>(at.first_row) * row_pieces + at.chunk * kRowPieces +
                      thread % kRowPieces;
  uint4* to =
      stage + Shape::kStrips * kStripPieces + thread / kRowPieces * kRowPitch + thread % kRowPieces;
  const int last = args.num_rows - 1 - at.first_row;
#pragma unroll
  for (int i = 0; i < Shape::kInputCopies; ++i) {
    if (i % kParts != part % kParts) continue;
    const int row = min(thread / kRowPieces + i * (Shape::kThreads / kRowPieces), last);
    copy_16(to + i * (Shape::kThreads / kRowPieces) * kRowPitch,
            from + static_cast<int64_t>(row) * row_pieces, true);
  }
}

/// The operands of one tile of 32 columns, for two steps.
template <typename Shape>
struct Fragments {
  uint32_t weights[Shape::kRowTiles][2][4];
  uint4 inputs[Shape::kColTiles];
};

template <typename Shape>
__device__ inline void load_fragments(const uint4* stage, int tile, Fragments<Shape>& f) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Lane 4 g + t has columns 8 t.. of row g.
  const uint4* inputs = stage + Shape::kStrips * kStripPieces +
                        (warp % 4 * Shape::kColTiles * 8 + lane / 4) * kRowPitch + lane % 4 +
                        tile * 4;
  // Lane l names row l % 8 of one of the matrices (strip 0, piece 0), (strip 1, piece 0),
  // (strip 0, piece 1), (strip 1, piece 1): the four registers of one step.
  const uint4* weights = stage + (warp / 4 * (Shape::kRowTiles * 2) + lane / 8 % 2) * kStripPieces +
                         lane / 16 * 8 + lane % 8 + tile * 32;
#pragma unroll
  for (int n = 0; n < Shape::kColTiles; ++n) f.inputs[n] = inputs[n * 8 * kRowPitch];
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
    load_matrices(f.weights[m][0], weights + 2 * m * kStripPieces);
    load_matrices(f.weights[m][1], weights + 2 * m * kStripPieces + 16);
  }
}

/// acc += weights x inputs over the tile.
template <typename Shape>
__device__ inline void chain_tile(const Fragments<Shape>& f,
                                  float (&acc)[Shape::kRowTiles][Shape::kColTiles][4]) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < Shape::kColTiles; ++n) {
      mma_step(acc[m][n], f.weights[m][0], f.inputs[n].x, f.inputs[n].y);
    }
#pragma unroll
    for (int n = 0; n < Shape::kColTiles; ++n) {
      mma_step(acc[m][n], f.weights[m][1], f.inputs[n].z, f.inputs[n].w);
    }
  }
}

/// Stores a warp's gate and up of one 16-row tile of weights. Lanes g and g + 1 swap values, so
/// that each stores two neighbouring outputs: the even lane of row 2 t, the odd lane of row 2 t +
/// 1.
template <int kColTiles>
__device__ inline void store_silu(const ProductArgs& args, int strip, int first_row,
                                  const float (&total)[kColTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane / 4 % 2 == 1;
  const int output = strip / 2 * kTileRows + lane / 4 / 2 * 2;
  const bool aligned = args.num_outputs % 2 == 0 && args.out_stride % 2 == 0;
#pragma unroll
  for (int n = 0; n < kColTiles; ++n) {
    const float even_row = silu(total[n][0]) * total[n][2];
    const float odd_row = silu(total[n][1]) * total[n][3];
    const float other = __shfl_xor_sync(0xFFFFFFFFu, odd ? even_row : odd_row, 4);
    const __nv_bfloat162 pair{__float2bfloat16_rn(odd ? other : even_row),
                              __float2bfloat16_rn(odd ? odd_row : other)};
    const int row = first_row + n * 8 + lane % 4 * 2 + (odd ? 1 : 0);
    if (row >= args.num_rows || output >= args.num_outputs) continue;
    auto* out = static_cast<__nv_bfloat16*>(args.out) + row * args.out_stride + output;
    if (aligned) {
      *reinterpret_cast<__nv_bfloat162*>(out) = pair;
    } else {
      out[0] = pair.x;
      if (output + 1 < args.num_outputs) out[1] = pair.y;
    }
  }
}

/// Stores or adds the outputs of strips `strip` and `strip` + 1 (kStore, kAdd).
template <int kColTiles>
__device__ inline void store_or_add(const ProductArgs& args, int strip, int first_row,
                                    const float (&total)[kColTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int output = strip * kTileRows + lane / 4;
  const bool adds = args.epilogue == Epilogue::kAdd;
  float* out = static_cast<float*>(args.out) + output;
  float old[kColTiles][4] = {};  // all loads start before the first is waited for
#pragma unroll
  for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + n * 8 + lane % 4 * 2 + i % 2;
      const bool valid = row < args.num_rows && output + i / 2 * kTileRows < args.num_outputs;
      if (adds && valid) old[n][i] = out[row * args.out_stride + i / 2 * kTileRows];
    }
  }
#pragma unroll
  for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + n * 8 + lane % 4 * 2 + i % 2;
      const bool valid = row < args.num_rows && output + i / 2 * kTileRows < args.num_outputs;
      if (valid) out[row * args.out_stride + i / 2 * kTileRows] = old[n][i] + total[n][i];
    }
  }
}

// Grid: at most the CTAs that can run at a time; CTA i makes tiles i, i + grid, ... of (32
// kRowTiles) outputs x (32 kColTiles) input rows. Lane 4 g + t of a warp ends with outputs g and g
// + 8 of each 16-output tile for input rows 2 t and 2 t + 1 of each 8-row tile.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    many_rows_kernel(const ProductArgs args, int num_tiles, int num_stages) {
  constexpr int kRowTiles = Shape::kRowTiles;
  constexpr int kColTiles = Shape::kColTiles;
  auto* const ring = dynamic_shared<uint4>();
  let_successors_start();
  const int num_chunks = args.k / kChunkCols;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  // The first stages' weights need no predecessor. They belong to the first group of copies.
  StageCursor work;
  enter_tile<Shape>(args, static_cast<int>(blockIdx.x), work);
  StageCursor copy = work;
  for (int s = 0; s < num_stages - 1; ++s) {
    if (copy.tile < num_tiles) {
      copy_weights<Shape, 1>(args, copy, ring + s * Shape::kStagePieces, 0);
    }
    advance<Shape>(args, num_chunks, copy);
  }
  wait_for_predecessors();
  copy = work;
  for (int s = 0; s < num_stages - 1; ++s) {
    if (copy.tile < num_tiles) {
      copy_inputs<Shape, 1>(args, copy, ring + s * Shape::kStagePieces, 0);
    }
    commit_copies();
    advance<Shape>(args, num_chunks, copy);
  }

  float total[kRowTiles][kColTiles][4] = {};
  int slot = 0;
  for (; work.tile < num_tiles; advance<Shape>(args, num_chunks, work)) {
    if (num_stages == kMaxManyStages) {
      wait_for_copies<kMaxManyStages - 2>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();  // this stage has arrived for all, and the one before has been read
    const uint4* stage = ring + slot * Shape::kStagePieces;
    uint4* free_stage = ring + (slot == 0 ? num_stages - 1 : slot - 1) * Shape::kStagePieces;
    float acc[kRowTiles][kColTiles][4] = {};
#pragma unroll
    for (int tile = 0; tile < kChunkTiles; ++tile) {
      Fragments<Shape> fragments;
      load_fragments(stage, tile, fragments);
      if (copy.tile < num_tiles) {  // a part of the copies, while the fragments arrive
        copy_weights<Shape, kChunkTiles>(args, copy, free_stage, tile);
        copy_inputs<Shape, kChunkTiles>(args, copy, free_stage, tile);
      }
      chain_tile(fragments, acc);
    }
    commit_copies();  // also when empty, because wait_for_copies counts groups
    advance<Shape>(args, num_chunks, copy);
    slot = slot + 1 == num_stages ? 0 : slot + 1;
    const bool last = work.chunk + 1 == num_chunks;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[m][n][i] += acc[m][n][i];
      }
    }
    if (!last) continue;
    const int first_strip = work.first_strip + warp / 4 * kRowTiles * 2;
    const int first_row = work.first_row + warp % 4 * kColTiles * 8;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      if (args.epilogue == Epilogue::kSiluMul) {
        store_silu(args, first_strip + 2 * m, first_row, total[m]);
      } else {
        store_or_add(args, first_strip + 2 * m, first_row, total[m]);
      }
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[m][n][i] = 0.0f;
      }
    }
  }
}

}  // namespace kv
