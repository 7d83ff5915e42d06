#pragma once

#include <nlohmann/json.hpp>

#include "programs/bench.h"
#include "programs/report.h"

namespace bench {

/// Serves requests that all come at once from a memory that holds half of them in bf16: in bf16 and
/// in FP8.
nlohmann::json measure_serving(const kv::Console& console, const kv::BenchOptions& options);

}  // namespace bench
