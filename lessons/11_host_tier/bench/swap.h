#pragma once

#include <nlohmann/json.hpp>

#include "common/console.h"
#include "common/device.h"

namespace bench {

/// Measures how fast blocks of Qwen3-0.6B are offloaded and loaded, beside the driver's own copies
/// and the limit of one large copy. With CUDA also measures the cost for a pass that runs at the
/// same time, by the number of CTAs that copy.
nlohmann::json measure_swaps(const kv::Console& console, kv::Device device, uint64_t seed);

}  // namespace bench
