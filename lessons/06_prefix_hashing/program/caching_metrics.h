#pragma once

// How much of what requests ask for is found. Source: vLLM's PrefixCacheStats and CachingMetrics
// (v0.22.1: vllm/v1/metrics/stats.py).

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lesson06 {

/// Requests that began, their tokens that were looked up, and how many of these were found.
struct PrefixCacheStats {
  int64_t requests = 0, queries = 0, hits = 0;
  double hit_rate() const {
    return queries > 0 ? static_cast<double>(hits) / static_cast<double>(queries) : 0;
  }
};

/// The statistics of the last `max_requests` requests: a hit rate that older ones no longer move.
class CachingMetrics {
 public:
  explicit CachingMetrics(int max_requests) : window_(static_cast<size_t>(max_requests)) {}
  const PrefixCacheStats& recent() const { return recent_; }
  void observe(int queries, int hits);

 private:
  std::vector<PrefixCacheStats> window_;  // a ring: one request each, the oldest at next_
  size_t next_ = 0;
  PrefixCacheStats recent_;
};

}  // namespace lesson06
