#pragma once

// K, V and queries in shared memory, in the layout that the steps of warpgroup_queries.cuh read,
// and the copies that bring them there.
//
// A warp copies whole rows, so its reads from memory are contiguous. In shared memory each 64
// elements of a row, 128 bytes, go to a region of their own, where rows are swizzled
// (warpgroup.cuh). So both the writes, whole rows, and the reads of a step of the scores, the same
// piece of eight rows, use all banks.
//
// The bits are those of many_queries.cuh because the sums are. A step of the scores must sum the 16
// elements that mma_piece sums in a step: 4 of each 16 bytes. So K and the queries are copied 8
// bytes at a time: of each 64 bytes, the elements of the first step go to the first half, the
// others to the second. V keeps its order.

#include "kernels/attention/pairs.cuh"
#include "kernels/warpgroup.cuh"

namespace kv::attention {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kStepRows = 64;
inline constexpr int kRowsOfWarp = kStepRows / 4;  // rows of a copying warp

/// 64 rows: regions of 64 elements of each, swizzled.
template <int kHeadDim>
struct alignas(kSwizzleBytes) StepMatrix {
  static constexpr int kRegionBytes = kStepRows * kSwizzledRowBytes;
  unsigned char bytes[kHeadDim * 2 / kSwizzledRowBytes * kRegionBytes];

  /// The offset of a byte of a row.
  __device__ static constexpr int place(int row, int byte) {
    return byte / kSwizzledRowBytes * kRegionBytes + row * kSwizzledRowBytes +
           (byte % kSwizzledRowBytes ^ row % 8 * 16);
  }
};

template <int kHeadDim>
struct StepTile {
  StepMatrix<kHeadDim> k, v;
};

#if KV_WARPGROUPS

/// The row of a tile that this lane of a copying warp looks up: one of the warp's 16.
__device__ inline int row_known_to_lane() {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  return kRowsOfWarp * warp + static_cast<int>(threadIdx.x) % kRowsOfWarp;
}

/// 64 rows in memory. A lane of a copying warp knows the place of one of them.
struct RowsToCopy {
  const bf16* first;   // row number 0
  uint32_t row_bytes;  // from one number to the next; 32 bits, so an address is one multiply-add
  int number;          // the row of row_known_to_lane()
  int end;             // rows from here on are not read and become zeros
};

/// Starts the copies of 64 rows; four warps. Each lane copies kBytes at a time, 8 or 16.
template <int kBytes, int kHeadDim>
__device__ inline void copy_rows(StepMatrix<kHeadDim>& to, const RowsToCopy& rows) {
  constexpr int kLanes = kHeadDim * 2 / kBytes;  // lanes that share a row
  constexpr int kRows = 32 / kLanes;             // at a time
  const int lane = static_cast<int>(threadIdx.x) % 32, part = lane % kLanes;
  const int first = row_known_to_lane() / kRowsOfWarp * kRowsOfWarp + lane / kLanes;
  const int byte = kBytes == 8 ? part / 8 * 64 + part % 2 * 32 + part % 8 / 2 * 8 : part * 16;
  const auto* from = reinterpret_cast<const unsigned char*>(rows.first) + part * kBytes;
  const uint32_t place = shared_address(to.bytes) + to.place(first, byte);
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; i += kRows) {
    const auto number = static_cast<uint32_t>(__shfl_sync(~0u, rows.number, lane / kLanes + i));
    const auto* row = from + uint64_t{number} * rows.row_bytes;
    const uint32_t at = (place ^ i % 8 * 16) + i * kSwizzledRowBytes;  // that of row first + i
    if (kBytes == 8) {
      copy_8(at, row, first + i < rows.end);
    } else {
      copy_16_of_128(at, row, first + i < rows.end);
    }
  }
}

#endif

}  // namespace kv::attention
