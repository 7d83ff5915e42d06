#pragma once

// Products with few input rows (decode): weights stream once through shared memory.
//
// A unit is 16 outputs (two strips of weights, the tall operand), or 8 where 16 would leave SMs
// without work. A slab is 1,024 columns: 8 chunks, one per warp. A batch is kUnits units x kSlabs
// slabs; one barrier ends it. A CTA takes a contiguous range of units.
//
//   1. start copying the first batches (all of them, for a layer's products): needs no input
//   2. wait for the predecessors; fetch this warp's chunks of the input rows, normalise them
//   3. each warp chains its chunks of the batch, each from zero; partial sums to shared memory
//   4. barrier; one warp per unit and 8 input rows adds the chunks in ascending order and stores
//
// From step 2 on every instruction is on the critical path of the whole pass: kernels follow each
// other every two microseconds, and a division costs a tenth of one. So values that are known at
// compile time are template parameters, and addresses are computed before the wait.

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
inline constexpr int kTileBytes = kTileElements * 2;

/// How a launch cuts its product; computed on the host.
struct FewRowsPlan {
  int num_units = 0;  // of 8 or 16 outputs
  int units_per_cta = 0;
  int num_groups = 1;   // of kSlabs slabs
  int strip_tiles = 0;  // tiles of one strip in one batch
  int ring = 0;         // batches in flight
  int sum_buffers = 0;  // 1 if a CTA has one batch only, else 2
};

/// The compile-time shape of a launch. kColTiles: input rows / 8. kHalf: units of 8 outputs. kNorm:
/// RMSNorm is fused. kWhole: one slab covers K, so the input fragments serve all units.
template <int kColTiles_, bool kHalf_, bool kNorm_, bool kWhole_, int kUnits_, int kSlabs_>
struct FewRowsShape {
  static constexpr int kColTiles = kColTiles_, kUnits = kUnits_, kSlabs = kSlabs_;
  static constexpr bool kHalf = kHalf_, kNorm = kNorm_, kWhole = kWhole_;
  static constexpr int kUnitStrips = kHalf ? 1 : 2;
  static constexpr int kHalves = kHalf ? 1 : 2;  // pairs of accumulators in use
  /// float2 per lane: [kUnits][kHalves][kColTiles][kSlabs * kFewWarps chunks]
  static constexpr int kUnitSums = kHalves * kColTiles * kSlabs * kFewWarps;
  static constexpr int kSumBufferBytes = kUnits * kUnitSums * 32 * 8;
  /// Registers are limited so that CTAs of the next kernels fit beside this one's.
  static constexpr int kCtasPerSm = kColTiles > 2 ? 1 : kColTiles == 1 && kWhole ? 3 : 2;
  static_assert(!kNorm || kColTiles == 1);
  static_assert(!kWhole || kSlabs == 1);
  static_assert(kUnits == 1 || (kSlabs == 1 && kWhole));
  static_assert(kUnits * kColTiles <= kFewWarps);
};

/// One CTA's work.
template <typename S>
struct FewRowsCta {
  const ProductArgs& args;
  const FewRowsPlan& plan;
  int warp, lane, g, t;  // lane = 4 g + t
  int tiles;             // of one strip
  int unit, end_unit;    // the current batch
  int group = 0;
  uint64_t* barriers;  // [ring]
  char* batches;       // [ring][kUnits * kUnitStrips strips][strip_tiles][512]
  float2* sums;        // [sum_buffers], see kSumBufferBytes
  float* square_sums;  // [slab][8 warps][8 rows], kNorm only

  __device__ FewRowsCta(const ProductArgs& a, const FewRowsPlan& p, char* shared)
      : args(a), plan(p), warp(threadIdx.x / 32), lane(threadIdx.x % 32), g(lane / 4), t(lane % 4) {
    tiles = tiles_per_strip(args.k);
    unit = static_cast<int>(blockIdx.x) * plan.units_per_cta;
    end_unit = min(unit + plan.units_per_cta, plan.num_units);
    barriers = reinterpret_cast<uint64_t*>(shared);
    batches = shared + kMaxRing * sizeof(uint64_t);
    sums = reinterpret_cast<float2*>(batches + plan.ring * batch_bytes());
    square_sums = reinterpret_cast<float*>(reinterpret_cast<char*>(sums) +
                                           plan.sum_buffers * S::kSumBufferBytes);
  }

  __device__ int strip_bytes() const { return plan.strip_tiles * kTileBytes; }
  __device__ int batch_bytes() const { return S::kUnits * S::kUnitStrips * strip_bytes(); }

  // --- 1. weights in flight ---

  /// Starts the copies of a batch. Units are contiguous in memory, so a whole batch is one range;
  /// otherwise each strip's part is one.
  __device__ void fill(int slot, int of_unit, int of_group) {
    if (!asks_for_copies()) return;
    char* to = batches + slot * batch_bytes();
    const int64_t first_strip = static_cast<int64_t>(of_unit) * S::kUnitStrips;
    const int first_tile = of_group * S::kSlabs * kSlabTiles;
    const uint4* from = args.weight + (first_strip * tiles + first_tile) * 32;
    if constexpr (S::kWhole) {
      const int units = min(S::kUnits, end_unit - of_unit);
      const uint32_t bytes = units * S::kUnitStrips * strip_bytes();
      expect_bytes(&barriers[slot], bytes);
      copy_range(to, from, bytes, &barriers[slot]);
    } else {
      const uint32_t bytes = min(plan.strip_tiles, tiles - first_tile) * kTileBytes;
      expect_bytes(&barriers[slot], S::kUnitStrips * bytes);
#pragma unroll
      for (int i = 0; i < S::kUnitStrips; ++i) {
        copy_range(to + i * strip_bytes(), from + static_cast<int64_t>(i) * tiles * 32, bytes,
                   &barriers[slot]);
      }
    }
    end_of_fill(&barriers[slot]);
  }

  __device__ void advance(int& of_unit, int& of_group) const {
    if (!S::kWhole && ++of_group < plan.num_groups) return;
    of_group = 0;
    of_unit += S::kUnits;
  }

  int next_unit, next_group = 0;  // the first batch whose copy has not been started

  __device__ void start() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < plan.ring; ++i) init_stage(&barriers[i], kFewThreads);
    }
    if (!KV_BULK_COPY) __syncthreads();
    next_unit = unit;
    for (int i = 0; i < plan.ring && next_unit < end_unit; ++i) {
      fill(i, next_unit, next_group);
      advance(next_unit, next_group);
    }
    __syncthreads();
  }

  // --- 2. input fragments: b[n][j] is lane's 16 bytes of tile j of this warp's chunk ---

  using Fragments = uint4[S::kColTiles][kChunkTiles];

  __device__ int first_column(int slab) const {
    return (((S::kWhole ? 0 : group * S::kSlabs) + slab) * kSlabTiles + warp * kChunkTiles) *
               kTileCols +
           8 * t;
  }

  __device__ void load_rows(int slab, Fragments& b) const {
    const int col = first_column(slab);
#pragma unroll
    for (int n = 0; n < S::kColTiles; ++n) {
      const int row = n * 8 + g;
      const auto* x =
          static_cast<const __nv_bfloat16*>(args.x) + static_cast<int64_t>(row) * args.k + col;
#pragma unroll
      for (int j = 0; j < kChunkTiles; ++j) {
        const bool valid = row < args.num_rows && col + j * kTileCols < args.k;
        b[n][j] = valid ? *reinterpret_cast<const uint4*>(x + j * kTileCols) : uint4{0, 0, 0, 0};
      }
    }
  }

  /// This lane's 32 floats of a row's chunk, or of the norm's weights.
  __device__ void load_floats(const float* x, bool valid_row, int slab, float (&v)[4][8]) const {
    const int col = first_column(slab);
#pragma unroll
    for (int j = 0; j < kChunkTiles; ++j) {
      load_8(x + col + j * kTileCols, valid_row && col + j * kTileCols < args.k, v[j]);
    }
  }
  __device__ void load_x(int slab, float (&v)[4][8]) const {
    const auto* x = static_cast<const float*>(args.x) + static_cast<int64_t>(g) * args.k;
    load_floats(x, g < args.num_rows, slab, v);
  }
  __device__ void load_norm_weights(int slab, float (&v)[4][8]) const {
    load_floats(args.norm_weight, true, slab, v);
  }

  /// The scale of row g. With one slab, `x` keeps the row; with more it must be read again.
  __device__ float scale_of_row(float inverse_k, float (&x)[4][8]) {
    const int num_slabs = S::kWhole ? 1 : plan.num_groups * S::kSlabs;
    float* mine = square_sums + warp * 8 + g;
    for (int slab = 0; slab < num_slabs; ++slab) {
      load_x(slab, x);
      const float sum = chunk_square_sum(x);
      if (t == 0) mine[slab * kFewWarps * 8] = sum;
    }
    __syncthreads();
    float total = 0.0f;
    for (int slab = 0; slab < num_slabs; ++slab) {
#pragma unroll
      for (int chunk = 0; chunk < kFewWarps; ++chunk) {
        total += square_sums[(slab * kFewWarps + chunk) * 8 + g];
      }
    }
    return norm_scale(total, inverse_k, args.norm_eps);
  }

  __device__ static void normalise(const float (&x)[4][8], const float (&w)[4][8], float scale,
                                   Fragments& b) {
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

  __device__ void load_inputs(int slab, float scale, Fragments& b) const {
    if constexpr (S::kNorm) {
      float x[4][8];
      float w[4][8];
      load_x(slab, x);
      load_norm_weights(slab, w);
      normalise(x, w, scale, b);
    } else {
      load_rows(slab, b);
    }
  }

  // --- 3. chains ---

  __device__ float2* sums_of(int buffer, int u, int half, int n) const {
    return sums + buffer * (S::kSumBufferBytes / 8) +
           (u * S::kUnitSums + (half * S::kColTiles + n) * S::kSlabs * kFewWarps) * 32 + lane;
  }

  /// Chains this warp's chunks of the batch. All units and slabs run side by side, because a single
  /// chain is slow.
  __device__ void chains(int slot, int buffer, const Fragments (&b)[S::kSlabs]) {
    constexpr int kChains = S::kUnits * S::kSlabs;
    const int first_tile = (S::kWhole ? 0 : group * S::kSlabs * kSlabTiles) + warp * kChunkTiles;
    const char* mine = batches + slot * batch_bytes() + warp * kChunkTiles * kTileBytes;
    const int pitch = strip_bytes();
    // Lane l names row l % 8 of one of four matrices. 16 outputs: (strip 0, piece 0), (strip 1,
    // piece 0), (strip 0, piece 1), (strip 1, piece 1), one step. 8 outputs: pieces 0 to 3, two
    // steps.
    const int matrix = lane / 8;
    mine += lane % 8 * 16 + (S::kHalf ? matrix * 128 : matrix % 2 * pitch + matrix / 2 * 128);
    float acc[kChains][S::kColTiles][4] = {};
#pragma unroll
    for (int j = 0; j < kChunkTiles; ++j) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) {
        const int u = c / S::kSlabs;
        const int slab = c % S::kSlabs;
        if (first_tile + slab * kSlabTiles >= tiles) continue;  // K has no such chunk
        const char* from = mine + u * S::kUnitStrips * pitch + (slab * kSlabTiles + j) * kTileBytes;
        uint32_t a[2][4];
        load_matrices(a[0], from);
        if (!S::kHalf) load_matrices(a[1], from + 256);
#pragma unroll
        for (int n = 0; n < S::kColTiles; ++n) {
          const uint4 x = b[slab][n][j];
          if constexpr (S::kHalf) {
            mma_step(acc[c][n], a[0][0], 0, a[0][1], 0, x.x, x.y);
            mma_step(acc[c][n], a[0][2], 0, a[0][3], 0, x.z, x.w);
          } else {
            mma_step(acc[c][n], a[0], x.x, x.y);
            mma_step(acc[c][n], a[1], x.z, x.w);
          }
        }
      }
    }
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      const int chunk = c % S::kSlabs * kFewWarps + warp;
#pragma unroll
      for (int n = 0; n < S::kColTiles; ++n) {
        sums_of(buffer, c / S::kSlabs, 0, n)[chunk * 32] = {acc[c][n][0], acc[c][n][1]};
        if (!S::kHalf) {
          sums_of(buffer, c / S::kSlabs, 1, n)[chunk * 32] = {acc[c][n][2], acc[c][n][3]};
        }
      }
    }
  }

  // --- 4. sums ---

  /// Warp n + kColTiles * u sums the n-th 8 input rows of unit u of the batch; with several groups
  /// of slabs `total` carries the sum from batch to batch.
  __device__ void batch(int slot, int fill_number, int buffer, const Fragments (&b)[S::kSlabs],
                        float (&total)[4]) {
    const int mine = unit + warp / S::kColTiles;
    const int n = warp % S::kColTiles;
    const int strip = mine * S::kUnitStrips;
    const int row = n * 8 + 2 * t;
    const bool sums_up = warp < S::kUnits * S::kColTiles && mine < end_unit;
    float old[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (sums_up && args.epilogue == Epilogue::kAdd) {  // loaded while the chains run
      old[0] = old_output(args, strip, row);
      old[1] = old_output(args, strip, row + 1);
      if (!S::kHalf) old[2] = old_output(args, strip + 1, row);
      if (!S::kHalf) old[3] = old_output(args, strip + 1, row + 1);
    }
    wait_for_stage(&barriers[slot], fill_number);
    chains(slot, buffer, b);
    __syncthreads();
    if (next_unit < end_unit) {
      fill(slot, next_unit, next_group);
      advance(next_unit, next_group);
    }
    if (!sums_up) return;
    const int u = warp / S::kColTiles;
    if (S::kWhole || group == 0) total[0] = total[1] = total[2] = total[3] = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < S::kSlabs * kFewWarps; ++chunk) {
      const float2 lo = sums_of(buffer, u, 0, n)[chunk * 32];
      total[0] += lo.x;
      total[1] += lo.y;
      if (!S::kHalf) {
        const float2 hi = sums_of(buffer, u, 1, n)[chunk * 32];
        total[2] += hi.x;
        total[3] += hi.y;
      }
    }
    if (!S::kWhole && group + 1 < plan.num_groups) return;
    store_sums(args, strip, !S::kHalf, row, total[0], total[2], old[0], old[2]);
    store_sums(args, strip, !S::kHalf, row + 1, total[1], total[3], old[1], old[3]);
  }

  __device__ void run() {
    Fragments b[S::kSlabs];
    float scale = 1.0f;
    if constexpr (S::kNorm) {
      const float inverse_k = 1.0f / static_cast<float>(args.k);
      float w[4][8];
      if constexpr (S::kWhole) load_norm_weights(0, w);
      wait_for_predecessors();
      float x[4][8];
      scale = scale_of_row(inverse_k, x);
      if constexpr (S::kWhole) normalise(x, w, scale, b[0]);
    } else {
      wait_for_predecessors();
      if constexpr (S::kWhole) load_inputs(0, scale, b[0]);
    }
    float total[4] = {};
    int slot = 0;
    int fill_number = 0;
    int buffer = 0;
    while (unit < end_unit) {
      if constexpr (!S::kWhole) {
#pragma unroll
        for (int slab = 0; slab < S::kSlabs; ++slab) load_inputs(slab, scale, b[slab]);
      }
      batch(slot, fill_number, buffer, b, total);
      advance(unit, group);
      buffer ^= 1;
      if (++slot == plan.ring) {
        slot = 0;
        ++fill_number;
      }
    }
  }
};

// Grid: enough CTAs for all units, at most one per SM. 256 threads; lane 4 g + t of warp w holds
// columns 8 t.. of chunk w, of weight rows g (and g + 8) and of input rows 8 n + g.
template <typename S>
__global__ void __launch_bounds__(kFewThreads, S::kCtasPerSm)
    few_rows_kernel(const ProductArgs args, const FewRowsPlan plan) {
  auto* const shared = dynamic_shared<char>();
  let_successors_start();
  FewRowsCta<S> cta(args, plan, shared);
  cta.start();
  cta.run();
}

}  // namespace kv
