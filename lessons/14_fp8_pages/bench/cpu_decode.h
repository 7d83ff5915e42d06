#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/console.h"

namespace bench {

/// Times attention of a decode step on the CPU over FP8 pages, and lesson 04's over the same
/// numbers in fp32, in turns. Throws std::logic_error if a bit of the results differs. `only`: the
/// cases that have this in their names.
nlohmann::json measure_cpu_decodes(const kv::Console& console, uint64_t seed,
                                   const std::string& only);

}  // namespace bench
