#pragma once

// The parts of the benchmark, each in a file of its own. `only`: the cases that have this in their
// names.

#include <string>

#include "programs/lab.h"

namespace bench {

/// Times attention of a decode step on the CPU over FP8 pages, and lesson 04's over the same
/// numbers in fp32, in turns. Throws std::logic_error if a bit of the results differs.
void measure_cpu_decodes(kv::Lab& lab, const std::string& only);

/// Times attention of decode steps on CUDA over FP8 pages, and lesson 04's over the same numbers in
/// bf16, each against a plain read of its bytes. Throws std::logic_error if a bit of the results
/// differs.
void measure_decodes(kv::Lab& lab, const std::string& only);
/// The same for prompts, chunks, and decodes beside a chunk, without the plain reads.
void measure_prefills(kv::Lab& lab, const std::string& only);

/// Serves requests that all come at once from a memory that holds half of them in bf16: in bf16 and
/// in FP8.
void measure_serving(kv::Lab& lab);

}  // namespace bench
