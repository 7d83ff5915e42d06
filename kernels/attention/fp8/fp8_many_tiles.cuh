#pragma once

// Copies of K and V in FP8 pages for many_queries.cuh, which reads bf16 from shared memory, so the
// bits are those of bf16. A warp copies the codes of 16 rows to the place of their bf16 numbers.
// Once they have arrived it reads all of them, then writes the numbers over them.

#include "kernels/attention/fp8/fp8_rows.cuh"
#include "kernels/attention/fp8/widen.cuh"
#include "kernels/attention/many/many_queries.cuh"

namespace kv::attention {

/// How a warp's lanes share its 16 rows of a tile: lanes l and l + 16 take alternate pieces of 16
/// codes of row l.
template <int kHeadDim>
struct CodesOfLane {
  static constexpr int kInRow = kHeadDim / 16, kCount = (kInRow + 1) / 2;
  __device__ static int row() {
    return static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 16;
  }
  __device__ static int piece(int i) { return 2 * i + static_cast<int>(threadIdx.x) % 32 / 16; }
};

/// A tile whose copies are in flight, and the scales of the lane's row.
struct ComingCodes {
  uint32_t scale_of_k, scale_of_v;
};

/// Starts the copies of one tile. Rows of tokens from `end` on are not read and become zeros. Rows
/// of tokens before `begin` are copies of the row of `begin`.
template <int kHeadDim>
__device__ inline ComingCodes start_tile(ManyTile<kHeadDim>& tile, const Fp8Rows& rows,
                                         int tile_begin, int begin, int end) {
  using Codes = CodesOfLane<kHeadDim>;
  const int token = tile_begin + Codes::row();
  const bool in_range = token < end;
  const TokenCodes from = rows.at(in_range ? max(token, begin) : begin);
#pragma unroll
  for (int i = 0; i < Codes::kCount; ++i) {
    const int piece = Codes::piece(i);
    if (piece >= Codes::kInRow) continue;
    const int to = ManyTile<kHeadDim>::index(Codes::row(), piece);
    copy_16(&tile.k[to], from.k + 16 * piece, in_range);
    copy_16(&tile.v[to], from.v + 16 * piece, in_range);
  }
  commit_copies();
  return {*from.scales_of_k, *from.scales_of_v};
}

/// Widens the lane's codes of K or V to the bf16 numbers that they stand for.
template <int kHeadDim>
__device__ inline void widen_in_place(uint4* of_tile, uint32_t scale) {
  using Codes = CodesOfLane<kHeadDim>;
  const auto place = [&](int piece) {
    return &of_tile[ManyTile<kHeadDim>::index(Codes::row(), piece)];
  };
  uint4 codes[Codes::kCount];
#pragma unroll
  for (int i = 0; i < Codes::kCount; ++i) {
    if (Codes::piece(i) < Codes::kInRow) codes[i] = *place(Codes::piece(i));
  }
  __syncwarp();  // all lanes have read their codes
  const uint32_t widening = widening_of(scale);
#pragma unroll
  for (int i = 0; i < Codes::kCount; ++i) {
    if (Codes::piece(i) >= Codes::kInRow) continue;
    const uint4 c = codes[i];
    *place(2 * Codes::piece(i)) = widen_eight(c.x, c.y, widening);
    *place(2 * Codes::piece(i) + 1) = widen_eight(c.z, c.w, widening);
  }
}

/// Widens a tile. All threads call it when their copies have arrived, before the barrier.
template <int kHeadDim>
__device__ inline void finish_tile(ManyTile<kHeadDim>& tile, const ComingCodes& coming) {
  __syncwarp();  // the other lanes' copies have arrived, too
  widen_in_place<kHeadDim>(tile.k, coming.scale_of_k);
  widen_in_place<kHeadDim>(tile.v, coming.scale_of_v);
}

}  // namespace kv::attention
