#pragma once

// The place of an element in a packed matrix, which has the order in which tensor cores read it.
//
//   packed[rows / 8][cols / 32][piece 4][row 8][word 4][2]     bf16; rows rounded up to 16, cols to
//                                                              128 (one chunk), with zeros
//
// A tile is 8 rows x 32 columns, 512 contiguous bytes; the tiles of a strip of 8 rows lie side by
// side, so a strip is one contiguous range. In a tile, piece p holds for each row the pairs of
// columns (2 p, 2 p + 1), (2 p + 8, ..), (2 p + 16, ..), (2 p + 24, ..): word t is the pair at
// 8 t + 2 p.
//
// Why: lane 4 g + t reads 8 neighbouring columns of an input row, 8 t .. 8 t + 7, with one 16-byte
// load, and uses its four registers in order, two per step of 16 columns. ldmatrix gives word t of
// a piece to lane 4 g + t, so piece p of the weights meets register p of the input. So a step takes
// columns of a tile that are not neighbours, the same ones in both operands and in every kernel.

#include <cstdint>

namespace kv {

inline constexpr int kTileRows = 8;
inline constexpr int kTileCols = 32;
inline constexpr int kTileElements = kTileRows * kTileCols;

/// Tiles that one chain of tensor core steps sums from zero: a chunk, the unit of the order over K.
inline constexpr int kChunkTiles = 4;
inline constexpr int kChunkCols = kChunkTiles * kTileCols;

/// Number of tiles in one strip of a matrix with `cols` columns, in whole chunks.
__host__ __device__ constexpr int tiles_per_strip(int cols) {
  return (cols + kChunkCols - 1) / kChunkCols * kChunkTiles;
}

/// Index of the bf16 element (row, col). Columns 2 i and 2 i + 1 are neighbours.
__host__ __device__ constexpr int64_t packed_index(int row, int col, int cols) {
  const int64_t tile = int64_t{row / kTileRows} * tiles_per_strip(cols) + col / kTileCols;
  const int piece = col % 8 / 2;
  const int word = col % kTileCols / 8;
  return tile * kTileElements + ((piece * kTileRows + row % kTileRows) * 4 + word) * 2 + col % 2;
}

}  // namespace kv
