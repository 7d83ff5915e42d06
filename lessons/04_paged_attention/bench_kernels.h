#pragma once

// What bench.cpp measures on a GPU.

#include <cstdint>

#include "bench_pass.h"

namespace bench {

/// Seconds of one call: the median over many replays of a CUDA graph, the buffers rotated so that
/// the L2 cache holds none of what is read next.
struct Times {
  double read = 0;        // a plain 16-byte read of the same bytes: the ceiling
  double paged = 0;       // paged_attention
  double contiguous = 0;  // decode_attention: the same kernel over slabs
  double gathered = 0;    // gather_kv, then decode_attention: lesson 03
};

/// The blocks lie in random order. Throws DeviceError.
Times measure_on_gpu(const Case& c, uint64_t seed);

}  // namespace bench
