#pragma once

// A layer's K and V as TMA sees them (Hopper): rows of parts, 128 bytes each. A copy brings a box,
// some parts of some neighbouring rows. In shared memory each part has a region of its own, whose
// rows are swizzled (warpgroup.cuh).

#include "kernels/attention/rows.cuh"
#include "kernels/hopper/tensor_map.cuh"
#include "kernels/hopper/warpgroup.cuh"

namespace kv::hopper {

using namespace attention;

struct LayerMaps {
  CUtensorMap k, v;  // boxes at (byte of the part, row, part)
  int box_rows;
};

inline LayerMaps layer_maps(const LayerRows& rows, int box_rows, int box_parts) {
  constexpr cuuint64_t kPart = kSwizzledRowBytes;
  const auto stride = static_cast<cuuint64_t>(rows.row_bytes);
  const auto map_of = [&](const void* data) {
    return tensor_map<3>(
        CU_TENSOR_MAP_DATA_TYPE_UINT8, data,
        {kPart, static_cast<cuuint64_t>(rows.num_rows), stride / kPart}, {stride, kPart},
        {kPart, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_parts)},
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE);
  };
  return {map_of(rows.k), map_of(rows.v), box_rows};
}

#if KV_WARPGROUPS

/// Brings the maps to the SM before the first copy needs them.
__device__ inline void prefetch_maps(const LayerMaps& maps) {
  if (threadIdx.x > 0) return;
  asm volatile("prefetch.tensormap [%0];" ::"l"(&maps.k) : "memory");
  asm volatile("prefetch.tensormap [%0];" ::"l"(&maps.v) : "memory");
}

#endif

}  // namespace kv::hopper
