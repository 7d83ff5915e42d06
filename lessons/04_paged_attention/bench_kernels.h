#pragma once

// What bench.cpp measures on a GPU.

#include <cstdint>
#include <vector>

namespace bench {

/// Sequences in blocks, one query each; Qwen3-0.6B's heads.
struct Case {
  std::vector<int> seq_lens;
  int block_size = 16;
};

/// Seconds of one call: the median over many replays of a CUDA graph, the buffers rotated so that
/// the L2 cache holds none of what is read next.
struct Times {
  double read = 0;        // a plain 16-byte read of the same bytes: the ceiling
  double paged = 0;       // paged_attention
  double contiguous = 0;  // the same kernel over slabs
  double lesson02 = 0;    // decode_attention over slabs
  double gathered = 0;    // gather_kv, then decode_attention: lesson 03
};

/// Bytes of K and V that a call must read.
double bytes_of(const Case& c);

/// The blocks lie in random order. Throws DeviceError.
Times measure_on_gpu(const Case& c, uint64_t seed);

}  // namespace bench
