#pragma once

// Products with few input rows (decode): weights stream once through shared memory.
//
// A unit is what one column of warps sums: 16 outputs (two strips of weights, the tall operand), or
// 8 when outputs are few and 16 would leave SMs without work. A stage is one unit's weights over a
// slab of 1,024 columns: 8 chunks, one per warp. A CTA takes a contiguous range of units.
//
//   1. start copying the first stages (all of them, for a layer's products)   needs no input
//   2. wait for the predecessors; fetch this warp's chunk of the input rows, normalise it
//   3. each warp: chain its chunk from zero; partial sums to shared memory; barrier
//   4. one warp per 8 input rows adds the 8 chunks in ascending order and stores
//
// Step 3 runs kBatch stages at a time: their chains are independent and hide each other's latency.

#include "kernels/launch.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/rmsnorm.cuh"
#include "kernels/stage_ring.cuh"
#include "kernels/tensor_core.cuh"

namespace kv {

inline constexpr int kFewWarps = 8;
inline constexpr int kFewThreads = 32 * kFewWarps;
inline constexpr int kSlabTiles = kFewWarps * kChunkTiles;
inline constexpr int kMaxRing = 16;

/// How a launch cuts its product; computed on the host.
struct FewRowsPlan {
  int num_units = 0;    // of 8 or 16 outputs
  int num_slabs = 0;    // of 1,024 columns
  int slab_tiles = 0;   // tiles in the widest slab
  int ring = 0;         // stages in flight
  int sum_buffers = 0;  // 1 if a CTA has one batch only, else 2
};

/// One CTA's work. kColTiles: input rows / 8. kHalf: units of 8 outputs. kNorm: RMSNorm fused.
/// kWhole: one slab covers K, so input fragments stay in registers for all units.
template <int kColTiles, bool kHalf, bool kNorm, bool kWhole, int kBatch>
struct FewRowsCta {
  static_assert(!kNorm || kColTiles == 1);
  static_assert(kBatch * kColTiles <= kFewWarps);
  static constexpr int kUnitStrips = kHalf ? 1 : 2;
  static constexpr int kSumFloats = kHalf ? 2 : 4;  // accumulators of a lane that mean something
  static constexpr int kSumBufferFloats = kBatch * kFewWarps * kColTiles * kSumFloats * 32;

  const ProductArgs& args;
  const FewRowsPlan& plan;
  int warp, lane, g, t;  // lane = 4 g + t
  int tiles;             // of one strip
  int first_unit, num_stages;
  char* stages;        // [ring][kUnitStrips][slab_tiles][512]
  float* sums;         // [sum_buffers][kBatch][warp][kColTiles][kSumFloats / 2][lane][2]
  float* square_sums;  // [chunk][8 rows], kNorm only
  uint64_t* barriers;  // [ring]

  __device__ FewRowsCta(const ProductArgs& a, const FewRowsPlan& p, char* shared)
      : args(a), plan(p), warp(threadIdx.x / 32), lane(threadIdx.x % 32), g(lane / 4), t(lane % 4) {
    tiles = tiles_per_strip(args.k);
    const int64_t cta = blockIdx.x;
    first_unit = static_cast<int>(cta * plan.num_units / gridDim.x);
    num_stages =
        (static_cast<int>((cta + 1) * plan.num_units / gridDim.x) - first_unit) * num_slabs();
    barriers = reinterpret_cast<uint64_t*>(shared);
    stages = shared + kMaxRing * sizeof(uint64_t);
    sums = reinterpret_cast<float*>(stages + plan.ring * stage_bytes());
    square_sums = sums + plan.sum_buffers * kSumBufferFloats;
  }

  __device__ int num_slabs() const { return kWhole ? 1 : plan.num_slabs; }
  __device__ int unit_of(int stage) const { return first_unit + stage / num_slabs(); }
  __device__ int slab_of(int stage) const { return kWhole ? 0 : stage % num_slabs(); }
  __device__ int strip_bytes() const { return plan.slab_tiles * kTileElements * 2; }
  __device__ int stage_bytes() const { return kUnitStrips * strip_bytes(); }

  // --- 1. weights on their way ---

  __device__ void fill(int stage) {
    if (!asks_for_copies()) return;
    const int slot = stage % plan.ring;
    const int first_tile = slab_of(stage) * kSlabTiles;
    const uint32_t bytes = min(kSlabTiles, tiles - first_tile) * kTileElements * 2;
    expect_bytes(&barriers[slot], kUnitStrips * bytes);
    for (int i = 0; i < kUnitStrips; ++i) {
      const int64_t strip = static_cast<int64_t>(unit_of(stage)) * kUnitStrips + i;
      copy_range(stages + slot * stage_bytes() + i * strip_bytes(),
                 args.weight + (strip * tiles + first_tile) * 32, bytes, &barriers[slot]);
    }
    end_of_fill(&barriers[slot]);
  }

  __device__ void start() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < plan.ring; ++i) init_stage(&barriers[i], kFewThreads);
    }
    if (!KV_BULK_COPY) __syncthreads();
    for (int i = 0; i < min(plan.ring, num_stages); ++i) fill(i);
    __syncthreads();
  }

  // --- 2. input fragments: b[n][j] is lane's 16 bytes of tile j of this warp's chunk ---

  __device__ int column(int slab, int j) const {
    return (slab * kSlabTiles + warp * kChunkTiles + j) * kTileCols + 8 * t;
  }

  __device__ uint4 input(int n, int slab, int j) const {
    const int row = n * 8 + g;
    const int col = column(slab, j);
    if (row >= args.num_rows || col >= args.k) return uint4{0, 0, 0, 0};
    const auto* x = static_cast<const __nv_bfloat16*>(args.x) + static_cast<int64_t>(row) * args.k;
    return *reinterpret_cast<const uint4*>(x + col);
  }

  /// Eight fp32 of this lane's row (or of the norm's weights, row 0).
  __device__ void load_8(const float* x, int row, int rows, int col, float (&v)[8]) const {
    float4 lo{0, 0, 0, 0};
    float4 hi{0, 0, 0, 0};
    if (row < rows && col < args.k) {
      const auto* from =
          reinterpret_cast<const float4*>(x + static_cast<int64_t>(row) * args.k + col);
      lo = from[0];
      hi = from[1];
    }
    v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
    v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
  }

  __device__ void load_chunk(int slab, float (&x)[4][8]) const {
    for (int j = 0; j < kChunkTiles; ++j) {
      load_8(static_cast<const float*>(args.x), g, args.num_rows, column(slab, j), x[j]);
    }
  }
  __device__ void load_norm_weights(int slab, float (&w)[4][8]) const {
    for (int j = 0; j < kChunkTiles; ++j) load_8(args.norm_weight, 0, 1, column(slab, j), w[j]);
  }

  /// The scale of row g, after every warp has noted the square sums of its chunks.
  __device__ float scale_of_row(float (&x)[4][8]) const {
    for (int slab = 0; slab < num_slabs(); ++slab) {
      load_chunk(slab, x);
      const float sum = chunk_square_sum(x);
      if (t == 0) square_sums[(slab * kFewWarps + warp) * 8 + g] = sum;
    }
    __syncthreads();
    float total = 0.0f;
    for (int chunk = 0; chunk < num_slabs() * kFewWarps; ++chunk) {
      total += square_sums[chunk * 8 + g];
    }
    return norm_scale(total, args.k, args.norm_eps);
  }

  __device__ static void normalise(const float (&x)[4][8], const float (&w)[4][8], float scale,
                                   uint4 (&b)[kColTiles][kChunkTiles]) {
#pragma unroll
    for (int j = 0; j < kChunkTiles; ++j) {
      __nv_bfloat162 pair[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pair[i] = {normalised(x[j][2 * i], scale, w[j][2 * i]),
                   normalised(x[j][2 * i + 1], scale, w[j][2 * i + 1])};
      }
      b[0][j] = *reinterpret_cast<const uint4*>(pair);
    }
  }

  // --- 3. chains ---

  __device__ uint4 weights(int stage, int strip, int j) const {
    const int tile = warp * kChunkTiles + j;
    if (tile + slab_of(stage) * kSlabTiles >= tiles) return uint4{0, 0, 0, 0};
    const char* base = stages + (stage % plan.ring) * stage_bytes() + strip * strip_bytes();
    return reinterpret_cast<const uint4*>(base)[tile * 32 + lane];
  }

  __device__ float2* sum_of(int buffer, int s, int from_warp, int n, int half) const {
    float* base = sums + buffer * kSumBufferFloats;
    return reinterpret_cast<float2*>(base) +
           (((s * kFewWarps + from_warp) * kColTiles + n) * (kSumFloats / 2) + half) * 32 + lane;
  }

  __device__ static void two_steps(float (&acc)[4], uint4 lo, uint4 hi, uint4 b) {
    mma_step(acc, lo.x, hi.x, lo.y, hi.y, b.x, b.y);
    mma_step(acc, lo.z, hi.z, lo.w, hi.w, b.z, b.w);
  }

  template <int kCount>
  __device__ void chains(int first, int buffer, const uint4 (&whole)[kColTiles][kChunkTiles],
                         float scale) {
    float acc[kCount][kColTiles][4] = {};
    uint4 b[kWhole ? 1 : kCount][kColTiles][kChunkTiles];
    if constexpr (!kWhole) {
#pragma unroll
      for (int s = 0; s < kCount; ++s) load_inputs(slab_of(first + s), scale, b[s]);
    }
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      wait_for_stage(&barriers[(first + s) % plan.ring], (first + s) / plan.ring);
    }
#pragma unroll
    for (int j = 0; j < kChunkTiles; ++j) {
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        const uint4 lo = weights(first + s, 0, j);
        const uint4 hi = kHalf ? uint4{0, 0, 0, 0} : weights(first + s, 1, j);
#pragma unroll
        for (int n = 0; n < kColTiles; ++n) {
          two_steps(acc[s][n], lo, hi, kWhole ? whole[n][j] : b[kWhole ? 0 : s][n][j]);
        }
      }
    }
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
        *sum_of(buffer, s, warp, n, 0) = {acc[s][n][0], acc[s][n][1]};
        if (!kHalf) *sum_of(buffer, s, warp, n, 1) = {acc[s][n][2], acc[s][n][3]};
      }
    }
  }

  __device__ void load_inputs(int slab, float scale, uint4 (&b)[kColTiles][kChunkTiles]) const {
    if constexpr (kNorm) {
      float x[4][8];
      float w[4][8];
      load_chunk(slab, x);
      load_norm_weights(slab, w);
      normalise(x, w, scale, b);
    } else {
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int j = 0; j < kChunkTiles; ++j) b[n][j] = input(n, slab, j);
      }
    }
  }

  // --- 4. sums ---

  /// Warps 0.. each finish one 8-row column of one unit. With several slabs a unit stays with its
  /// warp, and `total` carries it from slab to slab.
  template <int kCount>
  __device__ void batch(int first, int buffer, const uint4 (&whole)[kColTiles][kChunkTiles],
                        float scale, float (&total)[4]) {
    const int mine = kWhole ? warp / kColTiles : 0;  // the stage of this batch that this warp sums
    const int n = kWhole ? warp % kColTiles : warp;
    const bool sums_up = mine < kCount && n < kColTiles;
    const int row = n * 8 + 2 * t;
    float old[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (sums_up) {  // on its way while the chains run
      const int strip = unit_of(first + (kWhole ? mine : kCount - 1)) * kUnitStrips;
      old[0] = old_output(args, strip, row);
      old[1] = old_output(args, strip, row + 1);
      if (!kHalf) {
        old[2] = old_output(args, strip + 1, row);
        old[3] = old_output(args, strip + 1, row + 1);
      }
    }
    chains<kCount>(first, buffer, whole, scale);
    __syncthreads();
    for (int s = 0; s < kCount; ++s) {
      if (first + s + plan.ring < num_stages) fill(first + s + plan.ring);
    }
    if (!sums_up) return;
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      if (kWhole && s != mine) continue;
      const int stage = first + s;
      if (slab_of(stage) == 0) total[0] = total[1] = total[2] = total[3] = 0.0f;
#pragma unroll
      for (int from = 0; from < kFewWarps; ++from) {
        const float2 lo = *sum_of(buffer, s, from, n, 0);
        total[0] += lo.x;
        total[1] += lo.y;
        if (!kHalf) {
          const float2 hi = *sum_of(buffer, s, from, n, 1);
          total[2] += hi.x;
          total[3] += hi.y;
        }
      }
      if (slab_of(stage) + 1 < num_slabs()) continue;
      const int strip = unit_of(stage) * kUnitStrips;
      store_sums(args, strip, !kHalf, row, total[0], total[2], old[0], old[2]);
      store_sums(args, strip, !kHalf, row + 1, total[1], total[3], old[1], old[3]);
    }
  }

  __device__ void run() {
    uint4 whole[kColTiles][kChunkTiles] = {};
    float scale = 1.0f;
    if constexpr (kNorm) {
      float w[4][8];
      if constexpr (kWhole) load_norm_weights(0, w);
      wait_for_predecessors();
      float x[4][8];
      scale = scale_of_row(x);
      if constexpr (kWhole) normalise(x, w, scale, whole);
    } else {
      wait_for_predecessors();
      if constexpr (kWhole) load_inputs(0, scale, whole);
    }
    float total[4] = {};
    int first = 0;
    int buffer = 0;
    for (; first + kBatch <= num_stages; first += kBatch, buffer ^= 1) {
      batch<kBatch>(first, buffer, whole, scale, total);
    }
    if constexpr (kBatch > 1) {
      for (; first < num_stages; ++first, buffer ^= 1) {
        batch<1>(first, buffer, whole, scale, total);
      }
    }
  }
};

// Grid: enough CTAs for all units, at most one wave. 256 threads; lane 4 g + t of warp w holds
// columns 8 t.. of chunk w, of weight rows g (and g + 8) and of input rows 8 n + g.
template <int kColTiles, bool kHalf, bool kNorm, bool kWhole, int kBatch>
__global__ void __launch_bounds__(kFewThreads)
    few_rows_kernel(const ProductArgs args, const FewRowsPlan plan) {
  extern __shared__ __align__(128) char shared[];
  let_successors_start();
  FewRowsCta<kColTiles, kHalf, kNorm, kWhole, kBatch> cta(args, plan, shared);
  cta.start();
  cta.run();
}

}  // namespace kv
