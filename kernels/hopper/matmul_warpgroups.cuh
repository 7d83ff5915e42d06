#pragma once

// Products with many input rows on Hopper: the chains of the other two kernels, by warpgroups.
//
// A CTA has three warpgroups. Two multiply, each 64 rows of the tile, or half of its outputs. A
// lane has its pieces of two input rows in registers. The weights stay in shared memory: a packed
// tile is just what the tensor cores read (its four pieces are four matrices of 8 rows x 16 bytes).
// The two take turns: while one adds a finished chunk to its total, the steps of the other run. One
// thread of the third starts bulk copies: weights as packed, input rows in pieces of 128 bytes.
// Stages of 64 columns go round in a ring. One barrier tells that a stage is full, another that all
// have read it. An SM can take in 64 bytes a cycle, which bounds the loop, so a box holds no row
// beyond the input.
//
// With few tiles, several CTAs of a cluster share one. All but the first keep the sums of each of
// their chunks in registers. The first adds its own and hands the total over; the next one adds its
// sums to that, in ascending order, and hands it on. So the bits are the same.

#include <cuda.h>

#include "kernels/hopper/matmul_warpgroups_store.cuh"
#include "kernels/hopper/tensor_map.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/launch.cuh"
#include "kernels/stage_ring.cuh"

namespace kv::hopper {

inline constexpr int kStageTiles = 2;  // of 32 columns: half a chunk
inline constexpr int kStripStageBytes = kStageTiles * kTileElements * 2;

inline constexpr int kStageRowBytes = kStageTiles * kTileCols * 2;  // of one input row

inline constexpr int kLaterChunks = 8;  // chunks of each CTA that shares a tile, but the first

/// A tile of kOutputs x kRows, shared by kCtas CTAs.
template <int kOutputs_, int kRows_, int kCtas_ = 1>
struct WarpgroupShape {
  static constexpr int kOutputs = kOutputs_, kRows = kRows_, kCtas = kCtas_;
  static constexpr int kStrips = kOutputs / kTileRows;
  /// Strips of each warpgroup. With 64 rows the two share the outputs out.
  static constexpr int kGroupStrips = kRows == 64 ? kStrips / 2 : kStrips;
  static constexpr int kSums = kGroupStrips * 4;  // of a lane
  static constexpr int kThreads = 3 * kWarpgroupThreads;
  /// True if registers are not short. Some then remain for small kernels, whose CTAs can share an
  /// SM with this kernel's. So while a norm runs, the weights of the next product are being copied.
  static constexpr bool kLeavesRegisters = (kCtas > 1 ? kLaterChunks : 1) * kSums < 64;
  static constexpr int kMaxRegisters = kLeavesRegisters ? 168 : 240;  // of a lane that multiplies
  /// True if the two warpgroups' chunks run one at a time. With few sums to add that is not worth a
  /// barrier.
  static constexpr bool kTakesTurns = kCtas == 1 && kSums >= 64;
  /// Threads for the launch bounds. A larger number limits the registers of each thread.
  static constexpr int kBoundThreads = kLeavesRegisters ? 4 * kWarpgroupThreads : kThreads;
  static constexpr int kWeightBytes = kStrips * kStripStageBytes;
  static constexpr int kStageBytes = kWeightBytes + kRows * kStageRowBytes;
  /// The tile's total that one CTA hands to the next; its place is after the ring.
  static constexpr int kTotalBytes = kCtas > 1 ? kOutputs* kRows * 4 : 0;
  static constexpr int kMaxStages = (225 * 1024 - kTotalBytes) / kStageBytes;
  static constexpr int kStages = kMaxStages < 8 ? kMaxStages : 8;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kSharedBytes = kSwizzleBytes + kRingBytes + kTotalBytes;
  static_assert(kRows == 64 || kRows == 128);
};

/// Row tiles whose outputs are all computed before the next row tiles begin. So CTAs that work at
/// the same time share weights and input rows in the L2 cache (Triton's tutorial calls it
/// GROUP_SIZE_M).
inline constexpr int kRowTilesTogether = 16;

/// How the tiles cover the product. Row tiles have nearly equal numbers of rows.
struct TileGrid {
  int num_tiles;
  int output_tiles, row_tiles;
  int tile_rows;  // input rows of a tile, at most kRows
};

/// Both operands, described to TMA in boxes of a stage.
struct ProductMaps {
  CUtensorMap weights;  // [strips][words of 4 bytes], as packed
  CUtensorMap inputs;   // [rows][k], rows of a box in the pattern of 128 bytes
};

#if KV_WARPGROUPS

/// The number of this CTA among those that share its tile.
template <typename Shape>
__device__ inline int rank_of_cta() {
  return Shape::kCtas == 1 ? 0 : static_cast<int>(blockIdx.x) % Shape::kCtas;
}

/// A position in the sequence of stages: those of the CTA's first tile, then of its next. A CTA
/// that shares a tile has no other.
template <typename Shape>
struct StagePlace {
  int tile, stage, end_stage;  // of the tile
  int slot = 0, round = 0;     // in the ring
  int first_strip, first_row;

  __device__ StagePlace(const ProductArgs& args, const TileGrid& grid) {
    enter(grid, static_cast<int>(blockIdx.x) / Shape::kCtas);
    constexpr int kLaterStages = kLaterChunks * (kChunkTiles / kStageTiles);
    const int rank = rank_of_cta<Shape>();
    end_stage = args.k / (kStageTiles * kTileCols) - (Shape::kCtas - 1 - rank) * kLaterStages;
    stage = rank == 0 ? 0 : end_stage - kLaterStages;
  }
  __device__ void enter(const TileGrid& grid, int next_tile) {
    tile = next_tile;
    const int together = tile / (kRowTilesTogether * grid.output_tiles) * kRowTilesTogether;
    const int rows = min(kRowTilesTogether, grid.row_tiles - together);
    const int of_these = tile - together * grid.output_tiles;
    first_strip = of_these / rows * Shape::kStrips;
    first_row = (together + of_these % rows) * grid.tile_rows;
  }
  __device__ void next_slot() {
    if (++slot < Shape::kStages) return;
    slot = 0;
    ++round;
  }
  __device__ void advance(const TileGrid& grid) {
    next_slot();
    if (++stage < end_stage) return;
    stage = 0;
    enter(grid, tile + static_cast<int>(gridDim.x));
  }
};

/// Run by the copying thread. Strips beyond the matrix and rows beyond the input become zeros, and
/// rows beyond the tile keep old data; their results are not stored. Weights of the first round
/// need no predecessor.
template <typename Shape>
__device__ inline void copy_stages(const ProductArgs& args, const ProductMaps& maps,
                                   const TileGrid& grid, char* ring, uint64_t* full,
                                   uint64_t* empty) {
  const auto bytes = static_cast<uint32_t>(Shape::kWeightBytes + grid.tile_rows * kStageRowBytes);
  const auto copy_weights = [&](const StagePlace<Shape>& at) {
    expect_bytes(&full[at.slot], bytes);
    copy_box(ring + at.slot * Shape::kStageBytes, maps.weights, at.stage * (kStripStageBytes / 4),
             at.first_strip, &full[at.slot]);
  };
  StagePlace<Shape> early(args, grid);
  while (early.round == 0 && early.tile < grid.num_tiles) {
    copy_weights(early);
    early.advance(grid);
  }
  wait_for_predecessors();
  StagePlace<Shape> at(args, grid);
  while (at.tile < grid.num_tiles) {
    if (at.round > 0) {
      wait_for_phase(&empty[at.slot], (at.round - 1) & 1);
      copy_weights(at);
    }
    copy_box(ring + at.slot * Shape::kStageBytes + Shape::kWeightBytes, maps.inputs,
             at.stage * kStageTiles * kTileCols, at.first_row, &full[at.slot]);
    at.advance(grid);
  }
}

/// Hands a tile's total to the next CTA of the tile, and takes it. Between the two calls all
/// threads of the cluster meet, the copying ones included.
template <int kSums>
__device__ inline void give_total(char* to, int rank, const float (&total)[kSums]) {
  float4* mine = reinterpret_cast<float4*>(to) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    store_to_cta(mine + i / 4 * 2 * kWarpgroupThreads, rank,
                 {total[i], total[i + 1], total[i + 2], total[i + 3]});
  }
}
template <int kSums>
__device__ inline void take_total(const char* from, float (&total)[kSums]) {
  const float4* mine = reinterpret_cast<const float4*>(from) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const float4 x = mine[i / 4 * 2 * kWarpgroupThreads];
    total[i] = x.x, total[i + 1] = x.y, total[i + 2] = x.z, total[i + 3] = x.w;
  }
}

/// One of the two multiplying warpgroups.
template <typename Shape>
__device__ inline void multiply_stages(const ProductArgs& args, const TileGrid& grid, char* ring,
                                       uint64_t* full, uint64_t* empty) {
  constexpr int kSums = Shape::kSums;
  constexpr bool kShareOutputs = Shape::kRows == 64;
  const int warp = static_cast<int>(threadIdx.x) / 32;  // 0 .. 7
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int strip_in_tile = kShareOutputs ? warp / 4 * Shape::kGroupStrips : 0;
  const int row_in_tile = (kShareOutputs ? warp % 4 : warp) * 16;
  const int input = Shape::kWeightBytes + (row_in_tile + row_of_lane()) * kStageRowBytes;
  const int pieces[kStageTiles] = {(lane % 4 ^ row_of_lane()) * 16,
                                   (lane % 4 ^ row_of_lane() ^ 4) * 16};
  const int rank = rank_of_cta<Shape>();
  StagePlace<Shape> at(args, grid);
  const uint64_t weights =
      matrix_descriptor(ring + strip_in_tile * kStripStageBytes, 128, kStripStageBytes);
  wait_for_predecessors();

  // Loads this lane's pieces of a stage's input rows; returns the place of the stage's weights.
  const auto load_stage = [&](uint4(&x)[kStageTiles][2]) {
    wait_for_phase(&full[at.slot], at.round & 1);
    const char* stage = ring + at.slot * Shape::kStageBytes + input;
#pragma unroll
    for (int i = 0; i < kStageTiles; ++i) {
      x[i][0] = *reinterpret_cast<const uint4*>(stage + pieces[i]);
      x[i][1] = *reinterpret_cast<const uint4*>(stage + pieces[i] + 8 * kStageRowBytes);
    }
    const uint64_t w = weights + static_cast<uint64_t>(at.slot * (Shape::kStageBytes / 16));
    at.next_slot();
    return w;
  };
  // For the warpgroup's 64 rows, its outputs and each column k of the stage, 16 in a step:
  // acc[row][output] += x[row][k] * w[output][k].
  const auto start_stage = [](float(&acc)[kSums], const uint4(&x)[kStageTiles][2], uint64_t w,
                              bool first) {
    begin_steps();
#pragma unroll
    for (int i = 0; i < kStageTiles; ++i) {
      warpgroup_step(acc, x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y, w + i * 32, !first || i > 0);
      warpgroup_step(acc, x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w, w + i * 32 + 16, true);
    }
    end_steps();
  };
  int released = 0;
  const auto release_stage = [&] {
    if (lane == 0) arrive(&empty[released]);
    if (++released == Shape::kStages) released = 0;
  };
  const auto chain_chunk = [&](float(&acc)[kSums]) {
    uint4 x[2][kStageTiles][2];
    uint64_t w[2];
    w[0] = load_stage(x[0]);
    if constexpr (Shape::kTakesTurns) {
      w[1] = load_stage(x[1]);
      take_turn(warp / 4);
      start_stage(acc, x[0], w[0], true);
      start_stage(acc, x[1], w[1], false);
      give_turn(1 - warp / 4);
    } else {
      start_stage(acc, x[0], w[0], true);
      w[1] = load_stage(x[1]);
      start_stage(acc, x[1], w[1], false);
    }
    wait_for_steps<1>();
    release_stage();
    wait_for_steps<0>();
    release_stage();
    pin(acc);
  };
  const auto add = [](float(&total)[kSums], const float(&acc)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] += acc[i];
  };

  if (Shape::kTakesTurns && warp / 4 == 1) give_turn(0);
  for (; at.tile < grid.num_tiles; at.enter(grid, at.tile + static_cast<int>(gridDim.x))) {
    float total[kSums] = {};
    if (rank > 0) {
      float later[kLaterChunks][kSums];
#pragma unroll
      for (auto& chunk : later) chain_chunk(chunk);
      for (int i = 0; i < rank; ++i) sync_cluster();
      take_total(ring + Shape::kRingBytes, total);
#pragma unroll
      for (const auto& chunk : later) add(total, chunk);
    } else {
      for (int stage = 0; stage < at.end_stage; stage += kChunkTiles / kStageTiles) {
        float acc[kSums];
        chain_chunk(acc);
        add(total, acc);
      }
    }
    if (rank + 1 < Shape::kCtas) {
      give_total(ring + Shape::kRingBytes, rank + 1, total);
      for (int i = rank + 1; i < Shape::kCtas; ++i) sync_cluster();
      return;
    }
    const int strip = at.first_strip + strip_in_tile, first_row = at.first_row + row_in_tile;
    const int end_row = min(at.first_row + grid.tile_rows, args.num_rows);
    if (args.epilogue == Epilogue::kSiluMul) {
      if constexpr (Shape::kGroupStrips % 4 == 0) {
        store_tile_silu<Shape>(args, strip, first_row, end_row, total);
      }
    } else {
      store_tile<Shape>(args, strip, first_row, end_row, total);
    }
  }
}

#endif

template <typename Shape>
ProductMaps maps_of(const ProductArgs& args, int tile_rows) {
  const auto tiles = static_cast<cuuint64_t>(tiles_per_strip(args.k));
  constexpr cuuint64_t kTileWords = kTileElements / 2;
  ProductMaps maps;
  maps.weights =
      tensor_map<2>(CU_TENSOR_MAP_DATA_TYPE_INT32, args.weight,
                    {tiles * kTileWords, static_cast<cuuint64_t>(args.num_strips)},
                    {tiles * kTileWords * 4}, {kStageTiles * kTileWords, Shape::kStrips});
  maps.inputs = tensor_map<2>(
      CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.x,
      {static_cast<cuuint64_t>(args.k), static_cast<cuuint64_t>(args.num_rows)},
      {static_cast<cuuint64_t>(args.k) * 2},
      {kStageTiles * kTileCols, static_cast<cuuint32_t>(tile_rows)}, CU_TENSOR_MAP_SWIZZLE_128B);
  return maps;
}

// Grid: at most one CTA for each SM. CTA i makes tiles i, i + grid, ... of kOutputs outputs x kRows
// input rows, row tiles fastest, kRowTilesTogether of them. Warpgroups 0 and 1 multiply, 2 copies.
// With several kCtas, the CTAs of cluster i make tile i.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kBoundThreads, 1)
    warpgroups_kernel(const ProductArgs args, const __grid_constant__ ProductMaps maps,
                      const TileGrid grid) {
#if KV_WARPGROUPS
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  auto* const shared = dynamic_shared<char>();
  char* const ring = shared + (0u - shared_address(shared)) % kSwizzleBytes;
  let_successors_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      init_mbarrier(&full[i], 1);
      init_mbarrier(&empty[i], 8);  // the multiplying warps
    }
    publish_barriers();
  }
  __syncthreads();
  if (Shape::kCtas > 1) sync_cluster();  // the other CTAs run, so their shared memory exists
  if (threadIdx.x >= 2 * kWarpgroupThreads) {
    give_registers_back<24>();
    if (threadIdx.x == 2 * kWarpgroupThreads) {
      copy_stages<Shape>(args, maps, grid, ring, full, empty);
    } else {
      wait_for_predecessors();
    }
    for (int i = 1; i < Shape::kCtas; ++i) sync_cluster();
  } else {
    take_registers<Shape::kMaxRegisters>();
    multiply_stages<Shape>(args, grid, ring, full, empty);
  }
#endif
}

}  // namespace kv::hopper
