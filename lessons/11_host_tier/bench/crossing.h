#pragma once

#include <nlohmann/json.hpp>

#include "programs/bench.h"
#include "programs/report.h"

namespace bench {

/// For tokens of a prompt that are found in the host's memory, measures the time to load their
/// blocks. Also measures the time to compute them in one pass, after no tokens and after `longest`.
nlohmann::json measure_crossing(const kv::Console& console, const kv::BenchOptions& options);

}  // namespace bench
