#pragma once

// The engine of this lesson, watched.

#include <string>

#include "engine.h"
#include "lessons/08_scheduler/page_live.h"

namespace lesson11 {

/// The page's own pools and scheduler, and those of a live run.
struct PageSettings {
  int device = 12, host = 16, file = 24;  // blocks; no file: 0
  int copies = 2;                         // blocks that a link moves in a pass
  int budget = 16;                        // tokens of a pass
  int ahead = 8;                          // see TierOptions
  int min_hits = 0;
  LoadPolicy policy = LoadPolicy::kAlways;
  int token = 10, host_block = 20, file_block = 200;  // microseconds, for LoadPolicy::kQuicker

  SchedulerOptions scheduler() const { return {.max_tokens_per_pass = budget}; }
  Rates rates() const {
    return {.seconds_per_token = 1e-6 * token,
            .seconds_per_block = {1e-6 * host_block, 1e-6 * file_block}};
  }
  TierOptions tiers() const { return {.sink_ahead = ahead, .min_hits_to_sink = min_hits}; }
};

class LiveTiers : public lesson08::LiveServer {
 public:
  using LiveServer::LiveServer;
  static constexpr int kConversations = 4;  // each of them comes twice

  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);

  const TieredEngine& tiered() const { return engine<TieredEngine>(); }
  const TieredScheduler* scheduler() const {
    return static_cast<const TieredScheduler*>(LiveServer::scheduler());
  }
};

}  // namespace lesson11
