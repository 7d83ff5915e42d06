#pragma once

// This lesson's engine, watched by the page, and the settings of the page's own pool.

#include <string>

#include "engine.h"
#include "viz/live_server.h"

namespace lesson08 {

/// The page's own pool and scheduler, and those of a live run.
struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
  bool no_gate = false;

  SchedulerOptions scheduler() const {
    return {.max_tokens_per_pass = budget, .full_sequence_must_fit = !no_gate, .order = order};
  }
};

/// This lesson's engine, or a later one that serves in another way.
template <class Engine>
using LiveServer = viz::LiveServer<Engine, kv::Arrival, SchedulerOutput>;

class LiveServing : public LiveServer<ServingEngine> {
 public:
  using LiveServer::LiveServer;
  static constexpr int kRequests = 4, kPassesBetween = 3;

  /// Requests that begin with the prompt and come one after the other, each with a seed of its own.
  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);
};

}  // namespace lesson08
