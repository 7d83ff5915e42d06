#pragma once

// The end of a tile of matmul_warpgroups.cuh: which sums a lane has, and how they are stored.

#include "kernels/matmul_epilogue.cuh"

namespace kv::hopper {

/// True if four neighbouring outputs can be stored at once.
__device__ inline bool stores_fours(const ProductArgs& args) {
  return args.out_stride % 4 == 0 && args.num_outputs % 4 == 0 &&
         reinterpret_cast<uintptr_t>(args.out) % 16 == 0;
}

/// The input row that lane / 4 takes as the tensor cores' row g. Rows are 128 bytes apart, and
/// piece i of row r is in place i ^ r % 8. So if two rows are 4 apart, 8 lanes that read four
/// pieces of each use different banks.
__device__ inline int row_of_lane() {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  return g % 2 * 4 + g / 2;
}

/// Stores this lane's sums of a tile: its row and the one 8 after it, up to end_row; outputs 8 j +
/// 2 t and the next one. Neighbouring lanes swap sums, so that each stores four neighbouring
/// outputs: even lanes those of strip j, odd lanes those of strip j + 1.
template <typename Shape>
__device__ inline void store_tile(const ProductArgs& args, int first_strip, int first_row,
                                  int end_row, const float (&total)[Shape::kSums]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 == 1;
  const int first = (first_strip + (odd ? 1 : 0)) * kTileRows + lane % 4 / 2 * 4;
  const bool adds = args.epilogue == Epilogue::kAdd;
  const bool aligned = stores_fours(args);
  const auto row_of = [&](int half) { return first_row + row_of_lane() + 8 * half; };
  const auto out_of = [&](int half) {
    return static_cast<float*>(args.out) + row_of(half) * args.out_stride + first;
  };
  // Loads all old outputs, or half of them if registers are short, before waiting for the first.
  constexpr int kHalvesAtOnce = Shape::kSums > 64 ? 1 : 2;
  float4 old[kHalvesAtOnce][Shape::kGroupStrips / 2] = {};
  const auto load_old = [&](int half) {
    const bool valid_row = adds && aligned && row_of(half) < end_row;
#pragma unroll
    for (int j = 0; j < Shape::kGroupStrips; j += 2) {
      const bool valid = valid_row && first + 8 * j < args.num_outputs;
      const float* from = out_of(half) + 8 * j;
      if (valid) old[half % kHalvesAtOnce][j / 2] = *reinterpret_cast<const float4*>(from);
    }
  };
#pragma unroll
  for (int half = 0; half < kHalvesAtOnce; ++half) load_old(half);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (half >= kHalvesAtOnce) load_old(half);
    const int row = row_of(half);
    float* const out = out_of(half);
#pragma unroll
    for (int j = 0; j < Shape::kGroupStrips; j += 2) {
      const float2 even_part{total[4 * j + 2 * half], total[4 * j + 2 * half + 1]};
      const float2 odd_part{total[4 * j + 4 + 2 * half], total[4 * j + 4 + 2 * half + 1]};
      const float2 give = odd ? even_part : odd_part;
      const float2 got{__shfl_xor_sync(0xFFFFFFFFu, give.x, 1),
                       __shfl_xor_sync(0xFFFFFFFFu, give.y, 1)};
      const float2 low = odd ? got : even_part, high = odd ? odd_part : got;
      const int output = first + 8 * j;
      if (row >= end_row || output >= args.num_outputs) continue;
      if (aligned) {
        const float4 was = old[half % kHalvesAtOnce][j / 2];
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

/// Stores a tile for kSiluMul: strips are gate and up in turn. Neighbouring lanes swap outputs, so
/// that each stores four side by side: even lanes those of one pair of strips, odd lanes of the
/// next.
template <typename Shape>
__device__ inline void store_tile_silu(const ProductArgs& args, int first_strip, int first_row,
                                       int end_row, const float (&total)[Shape::kSums]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 == 1;
  const bool aligned = stores_fours(args);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + row_of_lane() + 8 * half;
#pragma unroll
    for (int j = 0; j < Shape::kGroupStrips; j += 4) {  // strips j .. j + 3: two gates and two ups
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
      if (row >= end_row || output >= args.num_outputs) continue;
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

}  // namespace kv::hopper
