#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/console.h"

namespace bench {

/// Times attention of decode steps on CUDA over FP8 pages, and lesson 04's over the same numbers in
/// bf16, each against a plain read of its bytes. Throws std::logic_error if a bit of the results
/// differs. `only`: the cases that have this in their names.
nlohmann::json measure_decodes(const kv::Console& console, uint64_t seed, const std::string& only);
/// The same for prompts, chunks, and decodes beside a chunk, without the plain reads.
nlohmann::json measure_prefills(const kv::Console& console, uint64_t seed, const std::string& only);

}  // namespace bench
