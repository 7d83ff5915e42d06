#pragma once

// The page of lesson 08: requests over time, two queues, a budget, one pool. page.cpp: what its
// commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler.h"
#include "viz/names.h"
#include "viz/page.h"
#include "viz/widgets.h"

namespace lesson08 {

using lesson03::BlockTable;
using lesson07::BlockPool;

constexpr int64_t kBallast = -1;  // blocks that `shrink` takes away

struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
  bool gate = true;
};

/// A request on the page, also after its end. Its hue is its id.
struct Seen : viz::SequenceView {
  int max_tokens = 0;
  int generated = 0;
  bool ended = false;
  std::vector<int> marks = {};  // [passes] of Mark
};
enum Mark { kAbsent, kWaits, kPrompt, kDecodes, kPreempted, kEnded };

class SchedulerPage : public viz::Page {
 public:
  SchedulerPage();

  void reset() override { restart({}); }
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { scheduler_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void declare_pools();
  std::string restart(const PageSettings& settings);
  std::string submit(const std::string& name, int prompt, int max_tokens, int priority);
  std::string pass();
  std::string names_of(const std::vector<int64_t>& ids) const;
  int mark_of(const Seen& seen) const;  // in the pass that last_ is
  std::string kill(const std::string& name);
  int num_rows() const;  // of the last pass

  void draw_controls(viz::Ui& ui);
  void draw_grid(viz::Ui& ui);
  void draw_pass(viz::Ui& ui, const std::vector<viz::TableView>& tables);
  std::vector<viz::TableView> draw_pool(viz::Ui& ui);

  PageSettings settings_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  std::unique_ptr<Scheduler> scheduler_;     // borrows the manager
  viz::NamedList<Seen> seen_{"request", 16};
  SchedulerOutput last_;  // the last pass
  int num_passes_ = 0;
  int32_t next_token_ = 1000;
};

}  // namespace lesson08
