#pragma once

// The parts of the benchmark, each in a file of its own.

#include "programs/lab.h"

namespace bench {

/// Measures how fast blocks of Qwen3-0.6B are offloaded and loaded, beside the driver's own copies
/// and the limit of one large copy. With CUDA also measures the cost for a pass that runs at the
/// same time, by the number of CTAs that copy.
void measure_swaps(kv::Lab& lab);

/// For tokens of a prompt that are found in the host's memory, measures the time to load their
/// blocks. Also measures the time to compute them in one pass, after no tokens and after `longest`.
void measure_crossing(kv::Lab& lab, int longest);

}  // namespace bench
