#pragma once

// Where an element of a packed matrix lies. The layout is the one a tensor core instruction wants
// its operand in, and it is a simple one: tiles of 8 rows x 32 columns, each tile row-major and
// contiguous (512 bytes), tiles of one strip of 8 rows side by side.
//
//   packed[rows / 8][cols / 32][8][32]      bf16, rows rounded up to 16, cols to 32, with zeros
//
// Lane l of a warp takes the 16 bytes number l of a tile: row l / 4, columns 8 (l % 4) .. + 7. For
// m16n8k16 these are its elements of two k-steps of 16 (k permuted alike in both operands), so a
// warp reads a tile with one fully coalesced load, and a strip is one contiguous range.

#include <cstdint>

namespace kv {

inline constexpr int kTileRows = 8;
inline constexpr int kTileCols = 32;
inline constexpr int kTileElements = kTileRows * kTileCols;

/// Tiles in one strip of a matrix with `cols` columns.
__host__ __device__ constexpr int tiles_per_strip(int cols) {
  return (cols + kTileCols - 1) / kTileCols;
}

/// Index of the bf16 element (row, col). Eight neighbours from a multiple of 8 are contiguous (16
/// bytes, aligned), so a row is gathered in pieces of 16 bytes, four of them side by side.
__host__ __device__ constexpr int64_t packed_index(int row, int col, int cols) {
  const int64_t tile = int64_t{row / kTileRows} * tiles_per_strip(cols) + col / kTileCols;
  return tile * kTileElements + (row % kTileRows) * kTileCols + col % kTileCols;
}

}  // namespace kv
