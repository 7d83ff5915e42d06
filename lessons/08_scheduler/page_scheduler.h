#pragma once

// The page of lesson 08: requests over time, two queues, a budget, one pool. page.cpp: what its
// commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv_cache_manager.h"
#include "scheduler.h"
#include "viz/page.h"

namespace lesson08 {

constexpr int64_t kBallast = -1;  // blocks that `shrink` takes away
constexpr size_t kMostRequests = 16;

struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
};

/// A request on the page, also after its end.
struct Seen {
  std::string name;
  int64_t id = 0;
  int hue = 0;
  int max_tokens = 0;
  int generated = 0;
  bool ended = false;
  std::vector<int> marks;  // [passes] of Mark
};
enum Mark { kAbsent, kWaits, kPrompt, kDecodes, kPreempted, kEnded };

class SchedulerPage : public viz::Page {
 public:
  SchedulerPage() { reset(); }

  viz::PageInfo info() const override;
  void reset() override { restart({}); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  std::string next_step() const override { return scheduler_->idle() ? "" : "step"; }
  void check_invariants() const override { scheduler_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void restart(const PageSettings& settings);
  std::string submit(const viz::Command& command);
  std::string pass();
  std::string kill(const std::string& name);
  std::string shrink(int blocks);
  std::string settings(const viz::Command& command);
  Seen& find(const std::string& name);
  Seen& by_id(int64_t id);
  std::string free_name() const;

  void draw_controls(viz::Ui& ui);
  void draw_grid(viz::Ui& ui);
  void draw_pass(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);

  PageSettings settings_;
  std::unique_ptr<KvCacheManager> manager_;
  std::unique_ptr<Scheduler> scheduler_;  // borrows the manager
  std::vector<Seen> seen_;                // in the order of submission
  std::vector<Chunk> last_;               // chunks of the last pass
  int num_passes_ = 0;
  int64_t num_found_ = 0;
  int64_t next_id_ = 0;
  int32_t next_token_ = 1000;
  // What the fields hold.
  int prompt_ = 24, max_tokens_ = 24, priority_ = 0;
};

}  // namespace lesson08
