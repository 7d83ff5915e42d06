#pragma once

// A picture of a served workload: a row for each request, a column for each pass.

#include <cstdint>
#include <string>
#include <vector>

#include "lessons/08_scheduler/engine.h"

namespace lesson08 {

/// Notes what each pass did. Give pass() to serve().
class Timeline {
 public:
  explicit Timeline(size_t num_requests) : rows_(num_requests) {}

  void pass(const Scheduler& scheduler, std::span<const Chunk> chunks);
  /// Waiting, prefill, decode and preempted in colours, the pool's use below.
  std::string to_svg() const;

 private:
  enum class Mark : uint8_t { kAbsent, kWaiting, kPrefill, kDecode, kPreempted };
  std::vector<std::vector<Mark>> rows_;  // [requests][passes]
  std::vector<double> used_;             // [passes] share of the pool's blocks
};

}  // namespace lesson08
