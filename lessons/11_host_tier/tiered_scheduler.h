#pragma once

// A scheduler that knows tiers: a request whose blocks are further down waits for them, and for
// nobody else's.

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lessons/08_scheduler/scheduler.h"
#include "tiered_manager.h"

namespace lesson11 {

using lesson08::Chunk;
using lesson08::ScheduledRequest;
using lesson08::Scheduler;
using lesson08::SchedulerOptions;
using lesson08::SchedulerOutput;

enum class LoadPolicy {
  kQuicker,  // load what is loaded in less time than it is computed in; unknown: load
  kAlways,
  kNever,  // nothing rises
};

/// Measured, lately. 0: not known yet.
struct Rates {
  double seconds_per_token = 0;           // of a pass that computes a prompt
  std::vector<double> seconds_per_block;  // [num_tiers], to the pool above
};

/// How many of the blocks, from the first one on, should rise: all, or those before the first one
/// that is computed in less time.
int blocks_worth_loading(std::span<const TierBlock> blocks, int block_size, LoadPolicy policy,
                         const Rates& rates);

/// Copies run beside the passes. A request that waits for a file stays in the waiting queue, and
/// others may overtake it. One that waits for host memory is running, with blocks and without
/// chunks: what is loaded is a chunk that the transfers run, and not the model.
class TieredScheduler : public Scheduler {
 public:
  /// Borrows the manager.
  TieredScheduler(TieredManager& manager, const SchedulerOptions& options,
                  LoadPolicy policy = LoadPolicy::kQuicker);

  const SchedulerOutput& schedule() override;
  /// 0 as long as the request's blocks are loaded.
  int chunk_of(const ScheduledRequest& request, int num_computed, int budget) const override;
  bool finish(int64_t id) override;

  void set_rates(Rates rates) { rates_ = std::move(rates); }
  const Rates& rates() const { return rates_; }
  bool is_loading(int64_t id) const { return loads_.contains(id); }
  // With these requests have started, and started again.
  int64_t num_found_tokens() const { return num_found_tokens_; }    // on the device
  int64_t num_loaded_tokens() const { return num_loaded_tokens_; }  // further down

 private:
  struct Load {
    Ticket ticket = 0;
    int num_tokens = 0;
  };
  void schedule_waiting(int& budget) override;
  bool start(Queue::iterator request, const FoundBlocks& found, int& budget);
  bool fetch(int64_t id, FoundBlocks& found);
  void finish_loads();

  TieredManager* manager_;
  LoadPolicy policy_;
  Rates rates_;
  std::map<int64_t, Load> loads_;
  std::set<int64_t> fetched_;  // requests for which blocks have risen from a file, until they start
  int64_t num_found_tokens_ = 0;
  int64_t num_loaded_tokens_ = 0;
};

}  // namespace lesson11
