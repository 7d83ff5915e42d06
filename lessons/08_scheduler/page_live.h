#pragma once

// The engine of this lesson, watched: it stands still before each pass.

#include <cstdint>
#include <string>
#include <vector>

#include "engine.h"
#include "viz/live.h"

namespace lesson08 {

/// The page's own pool and scheduler, and those of a live run.
struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
  bool gate = true;

  SchedulerOptions scheduler() const {
    return {.max_tokens_per_pass = budget, .full_sequence_must_fit = gate, .order = order};
  }
};

class LiveServing : public viz::Live {
 public:
  using Live::Live;
  static constexpr int kRequests = 4, kPassesBetween = 3;

  /// Requests that begin with the prompt and come one after the other, each with a seed of its own.
  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);

  const ServingEngine& serving() const { return engine<ServingEngine>(); }
  /// The engine's own, after it has composed a pass. Null: the run has ended.
  const Scheduler* scheduler() const { return finished() ? nullptr : scheduler_; }
  const SchedulerOutput& output() const { return *output_; }
  /// [requests] generated so far.
  const std::vector<std::vector<int32_t>>& answers() const { return answers_; }

 private:
  const Scheduler* scheduler_ = nullptr;  // while the engine serves
  const SchedulerOutput* output_ = nullptr;
  std::vector<Arrival> arrivals_;
  std::vector<std::vector<int32_t>> answers_;
};

}  // namespace lesson08
