#pragma once

// The page of lesson 08: requests that wait, run and end, a budget, one pool. page.cpp: what its
// commands do; passes.cpp: what a pass has done, of its own scheduler or of a live engine;
// scene.cpp and cards.cpp: what it shows.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live.h"
#include "scheduler.h"
#include "viz/pool_page.h"
#include "viz/served_requests.h"

namespace lesson08 {

constexpr int64_t kBallast = -1;  // blocks that `shrink` takes away

/// A request on the page, also after its end. Its hue is its id.
using Seen = viz::ServedRequest;

/// A request that wanted more blocks than were free, in a pass that has preempted.
struct Shortage {
  int pass = 0;
  int64_t id = 0;
  int num_wanted = 0, num_free = 0;
  size_t num_given = 0;  // blocks of the preempted requests
};
/// Blocks that the first waiting request needs to start, and blocks that are free.
struct FirstInLine {
  int64_t id = 0;
  int num_needed = 0, num_free = 0;
};

/// The state that a picture shows. The states of two commands give the motion between them.
struct Shown {
  viz::NamedList<Seen> seen{"request", 16};
  std::vector<int64_t> waiting = {}, running = {};
  SchedulerOutput last = {};  // the last pass
  int num_passes = 0;
  int64_t num_found = 0;                  // tokens, of requests that start or resume
  std::optional<Shortage> shortage = {};  // the last one

  const Seen& of(int64_t id) const { return *std::ranges::find(seen, id, &Seen::id); }
};

class SchedulerPage : public viz::PoolPage<Shown, PageSettings, LiveServing> {
 public:
  explicit SchedulerPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::vector<viz::Verb> pools();
  std::string begin() override;
  std::string submit(const viz::Words& words);
  std::string kill(const std::string& name);

  // Of the engine during a live run, else of the page.
  const KvCacheManager& manager() const {
    return live_.running() ? live_.server().manager() : *manager_;
  }
  const BlockPool& pool() const { return live_.running() ? live_.server().pool() : *pool_; }
  /// Null when the live run has ended.
  const Scheduler* scheduler() const {
    return live_.running() ? live_.scheduler() : scheduler_.get();
  }

  int64_t num_preemptions() const {
    int64_t sum = 0;
    for (const Seen& seen : shown_.seen) sum += seen.num_preemptions;
    return sum;
  }

  // passes.cpp
  std::string live(const std::string& prompt, int max_tokens);
  std::string passes(int count);
  void run_pass();
  void note_pass(const Scheduler& of, const SchedulerOutput& output);
  void note_arrivals(const Scheduler& of);
  Shown look() override;
  std::optional<Shortage> shortage_in(const Scheduler& of) const;
  std::optional<FirstInLine> first_in_line() const;

  friend class Picture;  // picture.h

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  std::unique_ptr<Scheduler> scheduler_;     // borrows the manager
  int32_t next_token_ = 1000;
};

}  // namespace lesson08
