#pragma once

// Products with many input rows on Hopper: the chains of the other two kernels, made by warpgroups.
//
// A CTA has three warpgroups. Two multiply, each 64 rows of the tile: a lane has its pieces of two
// input rows in registers, the weights stay in shared memory, where a packed tile is just what the
// tensor cores want (its four pieces are four matrices of 8 rows x 16 bytes). While one of the two
// adds a finished chunk to its total, the other one's steps run. Of the third, one thread asks the
// copy engine for what comes next: weights as packed, input rows as [32 columns][128 rows][64
// bytes]. Stages of 64 columns go round in a ring; one barrier says that a stage is full, another
// that all have read it.
//
// With few tiles two CTAs, neighbours in a cluster, share one. The second makes the last chunks
// and keeps each one's sums in registers; the first makes the others, adds them, and hands its
// total over. The second adds its own to that, in ascending order as ever: the same bits.

#include <cuda.h>

#include "kernels/launch.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/stage_ring.cuh"
#include "kernels/tensor_map.cuh"
#include "kernels/warpgroup.cuh"

namespace kv {

inline constexpr int kGroupThreads = 128;
inline constexpr int kStageTiles = 2;  // of 32 columns: half a chunk
inline constexpr int kStripStageBytes = kStageTiles * kTileElements * 2;

inline constexpr int kLaterChunks = 8;  // of the second CTA of two that share a tile

template <int kOutputs_, int kCtas_ = 1>
struct WarpgroupShape {
  static constexpr int kOutputs = kOutputs_;  // of a tile: 32, 64 or 128
  static constexpr int kCtas = kCtas_;        // that share a tile: 1 or 2
  static constexpr int kRows = 128;           // of a tile: 64 for each of two warpgroups
  static constexpr int kStrips = kOutputs / kTileRows;
  static constexpr int kThreads = 3 * kGroupThreads;
  static constexpr int kWeightBytes = kStrips * kStripStageBytes;
  static constexpr int kStageBytes = kWeightBytes + kRows * kStageTiles * kTileCols * 2;
  static constexpr int kStages = 224 * 1024 / kStageBytes < 8 ? 224 * 1024 / kStageBytes : 8;
  static constexpr int kRingBytes = kStages * kStageBytes;
  /// After the ring: a tile's total that one CTA hands to the other.
  static constexpr int kSharedBytes = kRingBytes + (kCtas == 2 ? kOutputs * kRows * 4 : 0);
};

/// Both operands as the copy engine sees them, in boxes of a stage.
struct ProductMaps {
  CUtensorMap weights;  // [strips][words of 4 bytes], as packed
  CUtensorMap inputs;   // [k / 32][rows][32 columns]
};

#if KV_WARPGROUPS

/// Whether this CTA has the last chunks of its tile, and another one the others.
template <typename Shape>
__device__ inline bool comes_second() {
  return Shape::kCtas == 2 && blockIdx.x % 2 == 1;
}

/// Where a warpgroup is in the sequence of stages: those of the CTA's first tile, then of its next.
/// A tile that is shared is the CTA's only one.
template <typename Shape>
struct StagePlace {
  int tile, stage, end_stage;  // of the tile
  int slot = 0, round = 0;     // in the ring
  int first_strip, first_row;

  __device__ explicit StagePlace(const ProductArgs& args) {
    enter(args, static_cast<int>(blockIdx.x) / Shape::kCtas);
    const int num_stages = args.k / (kStageTiles * kTileCols);
    const int shared = num_stages - kLaterChunks * (kChunkTiles / kStageTiles);
    stage = comes_second<Shape>() ? shared : 0;
    end_stage = Shape::kCtas == 2 && !comes_second<Shape>() ? shared : num_stages;
  }
  __device__ void enter(const ProductArgs& args, int next_tile) {
    const int row_tiles = (args.num_rows + Shape::kRows - 1) / Shape::kRows;
    tile = next_tile;
    first_strip = tile / row_tiles * Shape::kStrips;
    first_row = tile % row_tiles * Shape::kRows;
  }
  __device__ void next_slot() {
    if (++slot < Shape::kStages) return;
    slot = 0;
    ++round;
  }
  __device__ void advance(const ProductArgs& args) {
    next_slot();
    if (++stage < end_stage) return;
    stage = 0;
    enter(args, tile + static_cast<int>(gridDim.x));
  }
};

/// The thread that copies. Strips beyond the matrix and rows beyond the input are zeros; what they
/// give is never stored. Weights of the first round need no predecessor.
template <typename Shape>
__device__ inline void copy_stages(const ProductArgs& args, const ProductMaps& maps, int num_tiles,
                                   char* ring, uint64_t* full, uint64_t* empty) {
  const auto copy_weights = [&](const StagePlace<Shape>& at) {
    expect_bytes(&full[at.slot], Shape::kStageBytes);
    copy_box(ring + at.slot * Shape::kStageBytes, maps.weights, at.stage * (kStripStageBytes / 4),
             at.first_strip, &full[at.slot]);
  };
  StagePlace<Shape> early(args);
  while (early.round == 0 && early.tile < num_tiles) {
    copy_weights(early);
    early.advance(args);
  }
  wait_for_predecessors();
  StagePlace<Shape> at(args);
  while (at.tile < num_tiles) {
    if (at.round > 0) {
      wait_for_phase(&empty[at.slot], (at.round - 1) & 1);
      copy_weights(at);
    }
    copy_box(ring + at.slot * Shape::kStageBytes + Shape::kWeightBytes, maps.inputs, 0,
             at.first_row, at.stage * kStageTiles, &full[at.slot]);
    at.advance(args);
  }
}

/// Whether four neighbouring outputs can be stored at once.
__device__ inline bool stores_fours(const ProductArgs& args) {
  return args.out_stride % 4 == 0 && args.num_outputs % 4 == 0 &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

/// Stores a tile's sums of this lane: rows g and g + 8 of its warp's 16, outputs 8 j + 2 t and the
/// one after. Neighbouring lanes swap, so that each stores four outputs side by side: even ones of
/// strip j, odd ones of strip j + 1.
template <typename Shape>
__device__ inline void store_tile(const ProductArgs& args, int first_strip, int first_row,
                                  const float (&total)[Shape::kOutputs / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 == 1;
  const int first = (first_strip + (odd ? 1 : 0)) * kTileRows + lane % 4 / 2 * 4;
  const bool adds = args.epilogue == Epilogue::kAdd;
  const bool aligned = stores_fours(args);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
    float* out = static_cast<float*>(args.out) + row * args.out_stride + first;
    float4 old[Shape::kStrips / 2] = {};  // all on their way before the first is waited for
#pragma unroll
    for (int j = 0; j < Shape::kStrips; j += 2) {
      const bool valid = row < args.num_rows && first + 8 * j < args.num_outputs;
      if (adds && aligned && valid) old[j / 2] = *reinterpret_cast<const float4*>(out + 8 * j);
    }
#pragma unroll
    for (int j = 0; j < Shape::kStrips; j += 2) {
      const float2 even_part{total[4 * j + 2 * half], total[4 * j + 2 * half + 1]};
      const float2 odd_part{total[4 * j + 4 + 2 * half], total[4 * j + 4 + 2 * half + 1]};
      const float2 give = odd ? even_part : odd_part;
      const float2 got{__shfl_xor_sync(0xFFFFFFFFu, give.x, 1),
                       __shfl_xor_sync(0xFFFFFFFFu, give.y, 1)};
      const float2 low = odd ? got : even_part, high = odd ? odd_part : got;
      const int output = first + 8 * j;
      if (row >= args.num_rows || output >= args.num_outputs) continue;
      if (aligned) {
        const float4 was = old[j / 2];
        *reinterpret_cast<float4*>(out + 8 * j) = {was.x + low.x, was.y + low.y, was.z + high.x,
                                                   was.w + high.y};
        continue;
      }
      const float values[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (output + i >= args.num_outputs) continue;
        out[8 * j + i] = (adds ? out[8 * j + i] : 0.0f) + values[i];
      }
    }
  }
}

/// The same for kSiluMul: strips are gate and up in turn. Neighbouring lanes swap, so that each
/// stores four outputs side by side: even ones of one pair of strips, odd ones of the next.
template <typename Shape>
__device__ inline void store_tile_silu(const ProductArgs& args, int first_strip, int first_row,
                                       const float (&total)[Shape::kOutputs / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 == 1;
  const bool aligned = stores_fours(args);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
#pragma unroll
    for (int j = 0; j < Shape::kStrips; j += 4) {  // strips j .. j + 3: two gates and two ups
      __nv_bfloat162 mine[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* gate = total + 4 * (j + 2 * i) + 2 * half;
        const float* up = gate + 4;
        mine[i] = {__float2bfloat16_rn(silu(gate[0]) * up[0]),
                   __float2bfloat16_rn(silu(gate[1]) * up[1])};
      }
      const __nv_bfloat162 got = __shfl_xor_sync(0xFFFFFFFFu, odd ? mine[0] : mine[1], 1);
      const __nv_bfloat162 four[2] = {odd ? got : mine[0], odd ? mine[1] : got};
      const int output = (first_strip + j) / 2 * kTileRows + (odd ? 8 : 0) + lane % 4 / 2 * 4;
      if (row >= args.num_rows || output >= args.num_outputs) continue;
      auto* out = static_cast<__nv_bfloat16*>(args.out) + row * args.out_stride + output;
      if (aligned) {
        *reinterpret_cast<uint2*>(out) = *reinterpret_cast<const uint2*>(four);
        continue;
      }
      const __nv_bfloat16 values[4] = {four[0].x, four[0].y, four[1].x, four[1].y};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (output + i < args.num_outputs) out[i] = values[i];
      }
    }
  }
}

/// What the two CTAs of a tile have to do with each other. The barrier in the middle is one of all
/// their threads: those that copy meet there, too.
template <int kSums>
__device__ inline void give_total(char* to, const float (&total)[kSums]) {
  float4* mine = reinterpret_cast<float4*>(to) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    store_to_cta(mine + i / 4 * 2 * kGroupThreads, 1,
                 {total[i], total[i + 1], total[i + 2], total[i + 3]});
  }
  sync_cluster();
}
template <int kSums>
__device__ inline void take_total(const char* from, float (&total)[kSums]) {
  const float4* mine = reinterpret_cast<const float4*>(from) + threadIdx.x;
  sync_cluster();
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const float4 x = mine[i / 4 * 2 * kGroupThreads];
    total[i] = x.x, total[i + 1] = x.y, total[i + 2] = x.z, total[i + 3] = x.w;
  }
}

/// One of the two warpgroups that multiply.
template <typename Shape>
__device__ inline void multiply_stages(const ProductArgs& args, int num_tiles, char* ring,
                                       uint64_t* full, uint64_t* empty) {
  constexpr int kSums = Shape::kOutputs / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32;  // 0 .. 7
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int input = Shape::kWeightBytes + (warp * 16 + lane / 4) * 64 + lane % 4 * 16;
  StagePlace<Shape> at(args);
  const uint64_t weights = matrix_descriptor(ring, 128, kStripStageBytes);
  wait_for_predecessors();

  const auto start_stage = [&](float(&acc)[kSums], bool first) {
    wait_for_phase(&full[at.slot], at.round & 1);
    const char* stage = ring + at.slot * Shape::kStageBytes;
    uint4 x[kStageTiles][2];
#pragma unroll
    for (int i = 0; i < kStageTiles; ++i) {
      x[i][0] = *reinterpret_cast<const uint4*>(stage + input + i * (Shape::kRows * 64));
      x[i][1] = *reinterpret_cast<const uint4*>(stage + input + i * (Shape::kRows * 64) + 8 * 64);
    }
    const uint64_t w = weights + static_cast<uint64_t>(at.slot * (Shape::kStageBytes / 16));
    begin_steps();
#pragma unroll
    for (int i = 0; i < kStageTiles; ++i) {
      warpgroup_step(acc, x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y, w + i * 32, !first || i > 0);
      warpgroup_step(acc, x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w, w + i * 32 + 16, true);
    }
    end_steps();
    at.next_slot();
  };
  int released = 0;
  const auto release_stage = [&] {
    if (lane == 0) arrive(&empty[released]);
    if (++released == Shape::kStages) released = 0;
  };
  const auto chain_chunk = [&](float(&acc)[kSums]) {
    start_stage(acc, true);
    start_stage(acc, false);
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

  for (; at.tile < num_tiles; at.enter(args, at.tile + static_cast<int>(gridDim.x))) {
    float total[kSums] = {};
    if (comes_second<Shape>()) {
      float later[kLaterChunks][kSums];
#pragma unroll
      for (int i = 0; i < kLaterChunks; ++i) chain_chunk(later[i]);
      take_total(ring + Shape::kRingBytes, total);
#pragma unroll
      for (int i = 0; i < kLaterChunks; ++i) add(total, later[i]);
    } else {
      for (int stage = 0; stage < at.end_stage; stage += kChunkTiles / kStageTiles) {
        float acc[kSums];
        chain_chunk(acc);
        add(total, acc);
      }
      if (Shape::kCtas == 2) return give_total(ring + Shape::kRingBytes, total);
    }
    const int first_row = at.first_row + warp * 16;
    if (args.epilogue == Epilogue::kSiluMul) {
      store_tile_silu<Shape>(args, at.first_strip, first_row, total);
    } else {
      store_tile<Shape>(args, at.first_strip, first_row, total);
    }
  }
}

#endif

template <typename Shape>
ProductMaps maps_of(const ProductArgs& args) {
  const auto tiles = static_cast<cuuint64_t>(tiles_per_strip(args.k));
  constexpr cuuint64_t kTileWords = kTileElements / 2;
  ProductMaps maps;
  maps.weights =
      tensor_map<2>(CU_TENSOR_MAP_DATA_TYPE_INT32, args.weight,
                    {tiles * kTileWords, static_cast<cuuint64_t>(args.num_strips)},
                    {tiles * kTileWords * 4}, {kStageTiles * kTileWords, Shape::kStrips});
  maps.inputs =
      tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.x,
                    {kTileCols, static_cast<cuuint64_t>(args.num_rows), tiles},
                    {tiles * kTileCols * 2, kTileCols * 2}, {kTileCols, Shape::kRows, kStageTiles});
  return maps;
}

// Grid: as many CTAs as there are SMs, or fewer; CTA i makes tiles i, i + grid, ... of kOutputs
// outputs x 128 input rows, row tiles fastest. Warpgroups 0 and 1 multiply, 2 copies. With kCtas =
// 2: CTAs 2 i and 2 i + 1, a cluster, make tile i.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    warpgroups_kernel(const ProductArgs args, const __grid_constant__ ProductMaps maps,
                      int num_tiles) {
#if KV_WARPGROUPS
  auto* const ring = dynamic_shared<char>();
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  let_successors_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      init_mbarrier(&full[i], 1);
      init_mbarrier(&empty[i], 8);  // the warps that multiply
    }
    publish_barriers();
  }
  __syncthreads();
  if (Shape::kCtas == 2) sync_cluster();  // the other one runs: its shared memory is there
  if (threadIdx.x >= 2 * kGroupThreads) {
    give_registers_back<40>();
    if (threadIdx.x == 2 * kGroupThreads) {
      copy_stages<Shape>(args, maps, num_tiles, ring, full, empty);
    } else {
      wait_for_predecessors();
    }
    if (Shape::kCtas == 2) sync_cluster();
  } else {
    take_registers<232>();
    multiply_stages<Shape>(args, num_tiles, ring, full, empty);
  }
#endif
}

}  // namespace kv
