#pragma once

// K and V in FP8 pages on their way to many_queries.cuh, which finds bf16 in shared memory: the
// bits are those of bf16. A warp copies the codes of 16 rows to where their numbers will be, and
// widens them in place when they have come: it reads all of them, then writes.

#include "kernels/attention/fp8/fp8_rows.cuh"
#include "kernels/attention/fp8/widen.cuh"
#include "kernels/attention/many/many_queries.cuh"

namespace kv::attention {

/// A tile whose codes are on their way.
struct ComingCodes {
  uint32_t scales;  // of row lane % 16 of the warp's: K's in the lowest byte, then V's
};

/// The pieces of 16 codes of a warp's 16 rows, as its lanes share them.
template <int kHeadDim>
struct PiecesOfCodes {
  static constexpr int kInRow = kHeadDim / 16, kAll = 16 * kInRow, kOfLane = (kAll + 31) / 32;
  struct Piece {
    int row, in_row;  // row: of the warp's
    bool exists;
  };
  __device__ static Piece number(int i) {
    const int at = static_cast<int>(threadIdx.x) % 32 + 32 * i, row = min(at / kInRow, 15);
    return {.row = row, .in_row = at - row * kInRow, .exists = at < kAll};
  }
  /// The warp's first row of the tile.
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
};

/// Starts the copies of one tile. Rows of tokens from `end` on become zeros and are not read; in
/// place of those before `begin`, its row is.
template <int kHeadDim>
__device__ inline ComingCodes start_tile(ManyTile<kHeadDim>& tile, const Fp8Rows& rows,
                                         int tile_begin, int begin, int end) {
  using Pieces = PiecesOfCodes<kHeadDim>;
  const auto codes_of = [&](int row) {
    const int token = tile_begin + Pieces::first_row() + row;
    return rows.at(token < end ? max(token, begin) : begin);
  };
#pragma unroll
  for (int i = 0; i < Pieces::kOfLane; ++i) {
    const auto piece = Pieces::number(i);
    if (!piece.exists) continue;
    const int row = Pieces::first_row() + piece.row;
    const bool in_range = tile_begin + row < end;
    const TokenCodes from = codes_of(piece.row);
    const int to = ManyTile<kHeadDim>::index(row, piece.in_row);
    copy_16(&tile.k[to], from.k + 16 * piece.in_row, in_range);
    copy_16(&tile.v[to], from.v + 16 * piece.in_row, in_range);
  }
  commit_copies();
  const TokenCodes mine = codes_of(static_cast<int>(threadIdx.x) % 16);
  return {*mine.scales_of_k | static_cast<uint32_t>(*mine.scales_of_v) << 8};
}

/// Codes of K or V become the numbers that they stand for. A lane's byte `shift` / 8 of `scales` is
/// the scale of row lane % 16.
template <int kHeadDim>
__device__ inline void widen_in_place(uint4* of_tile, uint32_t scales, int shift) {
  using Pieces = PiecesOfCodes<kHeadDim>;
  uint4 codes[Pieces::kOfLane];
#pragma unroll
  for (int i = 0; i < Pieces::kOfLane; ++i) {
    const auto piece = Pieces::number(i);
    const int row = Pieces::first_row() + piece.row;
    if (piece.exists) codes[i] = of_tile[ManyTile<kHeadDim>::index(row, piece.in_row)];
  }
  __syncwarp();  // all are read
#pragma unroll
  for (int i = 0; i < Pieces::kOfLane; ++i) {
    const auto piece = Pieces::number(i);
    const int row = Pieces::first_row() + piece.row;
    const uint32_t widening =
        widening_of(__shfl_sync(kFullWarp, scales, piece.row) >> shift & 0xFF);
    if (!piece.exists) continue;
    const uint4 c = codes[i];
    of_tile[ManyTile<kHeadDim>::index(row, 2 * piece.in_row)] = widen_eight(c.x, c.y, widening);
    of_tile[ManyTile<kHeadDim>::index(row, 2 * piece.in_row + 1)] = widen_eight(c.z, c.w, widening);
  }
}

/// Called by all threads when their copies have come, before the barrier.
template <int kHeadDim>
__device__ inline void finish_tile(ManyTile<kHeadDim>& tile, const ComingCodes& coming) {
  __syncwarp();  // the other lanes' copies have come, too
  widen_in_place<kHeadDim>(tile.k, coming.scales, 0);
  widen_in_place<kHeadDim>(tile.v, coming.scales, 8);
}

}  // namespace kv::attention
