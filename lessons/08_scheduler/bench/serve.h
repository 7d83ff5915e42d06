#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "programs/bench.h"
#include "programs/report.h"

namespace bench {

/// Measures a busy server: tokens per second, the share of the time that reading takes at least,
/// and the host's part of each pass. Then measures the first token of a prompt on an idle server.
/// Writes the requests to `folder`, unless it is empty, as ./course load --prompts reads them.
nlohmann::json measure_serving(const kv::Console& console, const kv::BenchOptions& options,
                               const std::filesystem::path& folder);

}  // namespace bench
