#pragma once

#include "common/device.h"
#include "kernels/matmul_epilogue.cuh"

namespace kv::hopper {

/// Queues a product of many rows, made by warpgroups. Returns false, and does nothing, on another
/// GPU, in a build without code for sm_90a, or if K is not in whole chunks.
bool multiply(const ProductArgs& product, const Stream& stream);

}  // namespace kv::hopper
