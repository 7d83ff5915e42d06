#pragma once

// How long one thread waits for what it reads, memory by memory: ./course bench gpu.

#include <cstddef>

namespace first_kernels {

enum class From { kShared, kL1, kL2, kGlobal, kHost };

/// Seconds from one load to the next where each address is what the load before has brought: the
/// median of several runs. The addresses are a random walk through `bytes` of memory.
double seconds_of_load(From from, size_t bytes);

/// Seconds from one empty kernel to the next in a stream.
double seconds_of_launch();

/// Sizes of the current device, in bytes, and numbers of threads.
struct Sizes {
  int sms, threads_per_sm;
  size_t registers_per_sm, shared_per_sm, shared_per_cta, l2;
};
Sizes sizes_of_device();

}  // namespace first_kernels
