#pragma once

// A trace played on the bookkeeping alone: how much of it a pool of a given size finds.

#include <cstdint>
#include <string>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"
#include "trace.h"

namespace lesson07 {

/// Who goes when room is needed.
enum class Policy {
  kLru,     // the block that was used longest ago: the queue's front
  kFifo,    // the block that was stored longest ago, however often it is used
  kRandom,  // any
};
const char* name_of(Policy policy);
inline constexpr Policy kPolicies[] = {Policy::kLru, Policy::kFifo, Policy::kRandom};
inline constexpr int kPoolSlots[] = {2048, 4096, 8192, 16384, 32768, 65536, 131072};

struct ReplayResult {
  int64_t asked = 0;     // prompt tokens of all requests
  int64_t found = 0;     // of these, in the cache
  int64_t refused = 0;   // requests larger than the pool
  CacheMetrics metrics;  // of kLru

  double hit_rate() const {
    return asked > 0 ? static_cast<double>(found) / static_cast<double>(asked) : 0;
  }
};

/// One request after the other: look up, compute the rest, generate, free.
ReplayResult replay(const std::vector<TraceRequest>& trace, int num_blocks, int block_size,
                    Policy policy);

}  // namespace lesson07
