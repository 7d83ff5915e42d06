#pragma once

// The progress of a served workload on a terminal: one line while it runs, a chart afterwards.

#include <chrono>
#include <string>
#include <vector>

#include "lessons/08_scheduler/engine.h"

namespace lesson08 {

/// Notes what each pass did. Give pass() to serve(). With `live`, standard error has a line that is
/// written again five times a second.
class ServeProgress {
 public:
  explicit ServeProgress(bool live);
  ServeProgress(const ServeProgress&) = delete;
  ServeProgress& operator=(const ServeProgress&) = delete;
  ~ServeProgress();  // takes the live line away

  void pass(const Scheduler& scheduler);
  /// Four lines, from the first pass to the last, in a terminal of `width` columns: how full the
  /// pool is, running requests, waiting requests, and preemptions.
  std::string to_string(size_t width) const;

 private:
  struct Moment {
    double pool = 0;  // share of the blocks in use
    int running = 0, waiting = 0, preempted = 0;
  };
  void show_line(const lesson06::CachePool& pool);

  bool live_;
  bool shown_ = false;
  int64_t num_preempted_ = 0;
  int max_running_ = 0, max_waiting_ = 0;
  std::vector<Moment> moments_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace lesson08
