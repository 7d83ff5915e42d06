#pragma once

#include <nlohmann/json.hpp>

#include "programs/bench.h"
#include "programs/report.h"

namespace bench {

/// A server's busy time: tokens per second, the share of the time that reading takes at least, and
/// the host's part of each pass; then the first token of a prompt, with nothing else to do.
nlohmann::json measure_serving(const kv::Console& console, const kv::BenchOptions& options);

}  // namespace bench
