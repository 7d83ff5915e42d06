#pragma once

// Copies of tiles of K and V to one warp's shared memory.

#include "kernels/attention/fragments.cuh"
#include "kernels/attention/rows.cuh"

namespace kv::attention {

/// A tile of K and one of V in shared memory: rows of 16-byte pieces. The strides make both kinds
/// of reads use all banks. A read of K takes two pieces of four rows at a time (stride 2 mod 4), a
/// read of V by ldmatrix one piece of eight rows (an odd stride).
template <int kHeadDim>
struct StreamTile {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kStrideK = (kPieces + 1) / 4 * 4 + 2;
  static constexpr int kStrideV = kPieces | 1;
  static_assert(kStrideK >= kPieces && kStrideV >= kPieces);

  uint4 k[(kTileTokens - 1) * kStrideK + kPieces];
  uint4 v[(kTileTokens - 1) * kStrideV + kPieces];

  __device__ const uint4* k_piece(int row, int piece) const { return &k[row * kStrideK + piece]; }
  __device__ const uint4* v_piece(int row, int piece) const { return &v[row * kStrideV + piece]; }
};

/// This lane's copies of the tiles of one run of tokens, begin .. end - 1. Two groups of copies are
/// in flight at a time: a tile's K and its V.
template <int kHeadDim, class Rows>
struct StreamCopies {
  using Tile = StreamTile<kHeadDim>;
  static constexpr int kPieces = kHeadDim / 8;
  /// True if 32 lanes copy whole rows; a lane then copies the same piece of every row.
  static constexpr bool kWholeRows = 32 % kPieces == 0;

  Tile& tile;
  Rows rows;  // from this lane's piece on, if kWholeRows
  int begin, end;
  int row_of[2];  // in K and V: tokens lane and lane + 32 of the tile that is copied next

  __device__ StreamCopies(StreamTile<kHeadDim>& to, const Rows& from, int begin_token,
                          int end_token)
      : tile(to), rows(from), begin(begin_token), end(end_token) {
    const int element = kWholeRows ? static_cast<int>(threadIdx.x) % kPieces * 8 : 0;
    rows.k += element;
    rows.v += element;
  }

  /// Looks up the tile's rows. Tokens outside the run take the row of its first or last token.
  __device__ void find_rows(int tile_begin) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = tile_begin + static_cast<int>(threadIdx.x) + 32 * i;
      row_of[i] = rows.row_of(min(max(token, begin), end - 1));
    }
  }
  __device__ void start_k(int tile_begin) {
    start<Tile::kStrideK>(tile.k, rows.k, end - tile_begin);
  }
  __device__ void start_v(int tile_begin) {
    start<Tile::kStrideV>(tile.v, rows.v, end - tile_begin);
  }

 private:
  /// Starts the copies of the first `count` rows of a tile. The other rows are not read and become
  /// zeros.
  template <int kStride>
  __device__ void start(uint4* to, const bf16* from, int count) {
    const int lane = static_cast<int>(threadIdx.x);
    if constexpr (kWholeRows) {
      constexpr int kRows = 32 / kPieces;  // in one step
      constexpr int kUnroll = 8;           // with more, the addresses do not fit in registers
      const int row = lane / kPieces;
      const uint32_t first = shared_address(to + row * kStride + lane % kPieces);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll kUnroll
        for (int j = 0; j < 32 / kRows; ++j) {
          const int r = kRows * j + row;
          const int at = __shfl_sync(kFullWarp, row_of[half], r);
          copy_16_of_128(first + 16 * kStride * (32 * half + kRows * j), from + at * rows.stride,
                         r < count - 32 * half);
        }
      }
    } else {
#pragma unroll 4
      for (int j = 0; j < kTileTokens * kPieces / 32; ++j) {
        const int r = (lane + 32 * j) / kPieces;
        const int piece = (lane + 32 * j) % kPieces;
        const int low = __shfl_sync(kFullWarp, row_of[0], r % 32);
        const int high = __shfl_sync(kFullWarp, row_of[1], r % 32);
        copy_16_of_128(shared_address(to + r * kStride + piece),
                       from + (r < 32 ? low : high) * rows.stride + 8 * piece, r < count);
      }
    }
    commit_copies();
  }
};

/// Returns when all but the latest group of copies have arrived, those of the warp's other lanes
/// included.
__device__ inline void wait_for_all_but_one() {
  wait_for_copies<1>();
  __syncwarp();
}

}  // namespace kv::attention
