#pragma once

// Copies of K and V in FP8 pages for warpgroup_queries.cuh. It reads bf16 from shared memory, laid
// out as in step_tiles.cuh, so the bits are those of bf16.
//
// A warp copies the codes of its 16 rows to the place of their bf16 numbers. Once they have arrived
// it reads all of them, then writes the numbers over them. So no warp waits for another, and shared
// memory is as large as for bf16.
//
// Blocks have at least 16 tokens, and the rows of a warp are in one block.

#include "kernels/attention/fp8/fp8_rows.cuh"
#include "kernels/attention/fp8/widen.cuh"
#include "kernels/hopper/warpgroups/warpgroup_queries.cuh"

namespace kv::hopper {

inline constexpr int kRowsOfWarp = kTileTokens / 4;  // rows of a copying warp

/// Tiles widened from codes, for warpgroup_queries.cuh.
struct WidenedTiles {
  static constexpr int kArrivals = kWarpgroupThreads;
  static constexpr int kRegisters = 224, kCopyRegisters = 56;

  Fp8Blocks address;
};
inline WidenedTiles tiles_of(const Fp8Blocks& address) { return {address}; }

#if KV_WARPGROUPS

/// A warp's codes and scales until they are widened. A row's codes are at the beginning of the row,
/// in pieces of 16. In odd rows the first and the last four pieces are exchanged, so that lanes
/// reading the same part of rows r and r ^ 3 use different banks. The scales of the 16 rows are in
/// a place without codes.
template <int kHeadDim>
struct CodesInPlace {
  using Matrix = StepMatrix<kHeadDim>;
  static constexpr int kHalves = kHeadDim / 64;  // of a row: 64 numbers are 128 bytes
  static constexpr int kScales = kHalves == 2 ? Matrix::kRegionBytes : 64;
  static_assert(kHalves == 1 || kHalves == 2);

  unsigned char* rows;  // the warp's first row

  __device__ explicit CodesInPlace(Matrix& matrix)
      : rows(matrix.bytes + first_row() * kSwizzledRowBytes) {}
  /// The number of the warp's first row among the tile's 64.
  __device__ static int first_row() {
    return static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32 * kRowsOfWarp;
  }
  __device__ unsigned char* piece(int row, int i) const {
    return rows + row * kSwizzledRowBytes + (i ^ row % 2 * 4) * 16;
  }
  /// Starts the copies. `stride`: bytes from one row to the next. Rows from `end` on are not read
  /// and become zeros.
  __device__ void copy(const uint8_t* codes, int stride, const uint8_t* scales, int end) const {
    constexpr int kLanes = kHeadDim / 16;  // lanes that share a row
    const int lane = static_cast<int>(threadIdx.x) % 32, i = lane % kLanes;
#pragma unroll
    for (int first = 0; first < kRowsOfWarp; first += 32 / kLanes) {
      const int row = first + lane / kLanes;
      copy_16_of_128(shared_address(piece(row, i)), codes + row * stride + 16 * i, row < end);
    }
    if (lane == 0) copy_16(rows + kScales, scales, 0 < end);
  }
  /// Widens codes that have arrived. Rows from `end` on become zeros.
  __device__ void widen(int end) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, part = lane % 4;
    const int row = (lane / 16 * 4 + lane / 8 % 2) ^ lane / 4 % 2 * 3;  // and row + 8
    uint4 codes[kHalves][2];
    uint32_t widenings[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // A scale after the end may be anything, and 0 * NaN is NaN.
      widenings[h] = row + 8 * h < end ? widening_of(rows[kScales + row + 8 * h]) : 0;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        codes[half][h] = *reinterpret_cast<const uint4*>(piece(row + 8 * h, 4 * half + part));
      }
    }
    __syncwarp();  // all lanes have read their codes
    unsigned char* const to = rows + row * kSwizzledRowBytes;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint4 c = codes[half][h];
        unsigned char* const region = to + half * Matrix::kRegionBytes + h * kSwizzleBytes;
        *reinterpret_cast<uint4*>(region + (2 * part ^ row) * 16) =
            widen_eight(c.x, c.y, widenings[h]);
        *reinterpret_cast<uint4*>(region + (2 * part + 1 ^ row) * 16) =
            widen_eight(c.z, c.w, widenings[h]);
      }
    }
  }
};

/// The work of the copying warpgroup. It hands a tile over once the copies of the next one have
/// started. These wait for the slot of the tile kSlots earlier, which both warpgroups have long
/// left.
template <int kHeadDim, int kWarpgroups>
__device__ inline void copy_tiles(WarpgroupShared<kHeadDim, kWarpgroups>& shared,
                                  const WidenedTiles& tiles, const Pairs& pairs, int seq,
                                  int kv_head, int num_tiles) {
  using Codes = CodesInPlace<kHeadDim>;
  constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots, kAhead = 1;
  const Fp8Rows rows = tiles.address.rows(seq, kv_head);
  const auto first_token = [](int i) { return i * kTileTokens + Codes::first_row(); };
  // The block of the warp's 16 tokens, looked up one tile ahead; block 0 if they are not read.
  const auto find = [&](int i) {
    return first_token(i) < pairs.seq_len ? rows.block_of(first_token(i)) : 0;
  };
  int next = find(0);
  for (int i = 0; i < num_tiles + kAhead; ++i) {
    if (i < num_tiles) {
      const TokenCodes first = rows.at(first_token(i), next);
      const int end = pairs.seq_len - first_token(i);
      StepTile<kHeadDim>& tile = shared.tiles[i % kSlots];
      next = find(i + 1);
      wait_for_phase(&shared.empty[i % kSlots], (i / kSlots & 1) ^ 1);  // not in the first round
      Codes(tile.k).copy(first.k, rows.stride, first.scales_of_k, end);
      Codes(tile.v).copy(first.v, rows.stride, first.scales_of_v, end);
    }
    commit_copies();
    if (i < kAhead) continue;
    wait_for_copies<kAhead>();
    __syncwarp();  // the codes of all lanes have arrived
    const int done = i - kAhead, end = pairs.seq_len - first_token(done);
    StepTile<kHeadDim>& tile = shared.tiles[done % kSlots];
    Codes(tile.k).widen(end);
    Codes(tile.v).widen(end);
    publish_copies();
    arrive(&shared.full[done % kSlots]);
  }
}

#endif

}  // namespace kv::hopper
