#pragma once

#include <nlohmann/json.hpp>

#include "programs/bench.h"
#include "programs/report.h"

namespace bench {

/// Tokens of a prompt, found in the host's memory: the time to load their blocks, and
/// the time to compute them in one pass, after no tokens and after `longest`.
nlohmann::json measure_crossing(const kv::Console& console, const kv::BenchOptions& options);

}  // namespace bench
