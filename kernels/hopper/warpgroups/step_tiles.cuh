#pragma once

// K and V in shared memory, in the layout that the steps of warpgroup_queries.cuh read. Each 64
// elements of a row, 128 bytes, are in a region of their own, where rows are swizzled as TMA does
// it (warpgroup.cuh). A step of the scores sums 16 neighbours of a row, as score_step does, and so
// the bits are those of many_queries.cuh.

#include "kernels/attention/pairs.cuh"
#include "kernels/hopper/layer_maps.cuh"
#include "kernels/hopper/warpgroup.cuh"

namespace kv::hopper {

/// 64 rows: regions of 64 elements of each, swizzled.
template <int kHeadDim>
struct alignas(kSwizzleBytes) StepMatrix {
  static constexpr int kRegions = kHeadDim * 2 / kSwizzledRowBytes;
  static constexpr int kRegionBytes = kTileTokens * kSwizzledRowBytes;
  unsigned char bytes[kRegions * kRegionBytes];
};

template <int kHeadDim>
struct StepTile {
  StepMatrix<kHeadDim> k, v;
};

#if KV_WARPGROUPS

/// Copies piece `piece` of a row, 16 bytes; zeros (and nothing is read) if !valid.
template <int kHeadDim>
__device__ inline void copy_piece(StepMatrix<kHeadDim>& to, int row, int piece, const bf16* from,
                                  bool valid) {
  const int place = piece / 8 * to.kRegionBytes + row * kSwizzledRowBytes + (piece ^ row) % 8 * 16;
  copy_16(to.bytes + place, from + 8 * piece, valid);
}

#endif

}  // namespace kv::hopper
