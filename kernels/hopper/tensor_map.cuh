#pragma once

// Describes an array to TMA, which copies boxes of it (Hopper and later).

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "kernels/launch.cuh"

namespace kv::hopper {

/// Makes a map of `sizes`, fastest dimension first, for boxes of `box`. strides[i] is the number of
/// bytes between neighbours of dimension i + 1. `swizzle`: how a box's rows are permuted in shared
/// memory. `promotion`: how many bytes the L2 cache fetches at a time.
template <size_t kDims>
CUtensorMap tensor_map(CUtensorMapDataType type, const void* data,
                       const std::array<cuuint64_t, kDims>& sizes,
                       const std::array<cuuint64_t, kDims - 1>& strides,
                       const std::array<cuuint32_t, kDims>& box,
                       CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                       CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    cuda_backend::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                         cudaEnableDefault, &found),
                        "asking the driver for tensor maps");
#else
    cuda_backend::check(
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
        "asking the driver for tensor maps");
#endif
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  std::array<cuuint32_t, kDims> steps;
  steps.fill(1);
  CUtensorMap map;  // only for reading `data`, although the driver's interface takes no const
  const CUresult result =
      encode(&map, type, kDims, std::bit_cast<void*>(data), sizes.data(), strides.data(),
             box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw std::logic_error("the driver refuses a tensor map, error " +
                           std::to_string(static_cast<int>(result)));
  }
  return map;
}

}  // namespace kv::hopper
