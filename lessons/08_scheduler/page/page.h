#pragma once

// The page of lesson 08: requests that wait, run and end, a budget, one pool. page.cpp: what its
// commands do; passes.cpp: what a pass has done, of its own scheduler or of a live engine;
// scene.cpp, cards.cpp and history.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live.h"
#include "scheduler.h"
#include "viz/drawing/progress.h"
#include "viz/pool_page.h"

namespace lesson08 {

constexpr int64_t kBallast = -1;  // blocks that `shrink` takes away

/// What `submit` is given.
struct Submitted {
  int prompt = 0, max_tokens = 0, priority = 0, shared = 0;
};

/// A request on the page, also after its end. Its hue is its id.
struct Seen : viz::SequenceView {
  int num_prompt = 0;
  int max_tokens = 0;
  int generated = 0;
  int num_computed = 0;  // tokens that have a slot
  int num_preemptions = 0;
  bool ended = false;
  std::string words = {};         // of a live run: what it has generated
  viz::PassMarks marks = {};      // [passes]
  std::vector<int32_t> ids = {};  // its blocks
};

/// A request that wanted more blocks than were free, in a pass that has preempted.
struct Shortage {
  int pass = 0;
  int64_t id = 0;
  int num_wanted = 0, num_free = 0;
  int num_given = 0;  // by the preempted requests: blocks in no other table
};
/// What the first in line needs to start, and what is free.
struct FirstInLine {
  int64_t id = 0;
  int num_needed = 0, num_free = 0;
};

/// What a picture is made of, of two commands for the motion between them.
struct Shown {
  viz::NamedList<Seen> seen{"request", 16};
  std::vector<int64_t> running = {};
  int num_passes = 0;
};

class SchedulerPage : public viz::PoolPage<Shown, PageSettings, LiveServing> {
 public:
  explicit SchedulerPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::vector<viz::Verb> pools();
  std::string begin() override;
  std::string submit(const std::string& name, const Submitted& wanted);
  std::string kill(const std::string& name);

  // passes.cpp
  const KvCacheManager& manager() const;
  const BlockPool& pool() const { return static_cast<const BlockPool&>(manager().pool()); }
  const Scheduler* scheduler() const;  // null: the live run has ended
  std::string live(const std::string& prompt, int max_tokens);
  std::string passes(int count);
  void run_pass();
  void note_pass(const Scheduler& of, const SchedulerOutput& output);
  void note_arrivals(const Scheduler& of);
  void note_ends(const Scheduler* of);
  static bool is_there(const Scheduler* of, int64_t id);
  Shown look() override;
  std::optional<Shortage> shortage_in(const Scheduler& of) const;
  std::optional<FirstInLine> first_in_line() const;
  std::optional<viz::State> mark_of(const Scheduler& of,
                                    const Seen& seen) const;  // in the pass that last_ is
  Seen& seen_of(int64_t id);
  const Seen& seen_of(int64_t id) const;
  std::string names_of(const std::vector<int64_t>& ids) const;
  int num_rows() const;  // of the last pass

  friend class Picture;  // picture.h

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  std::unique_ptr<Scheduler> scheduler_;     // borrows the manager
  viz::NamedList<Seen> seen_{"request", 16};
  SchedulerOutput last_;  // the last pass
  int num_passes_ = 0;
  int64_t num_found_ = 0, num_looked_up_ = 0;  // tokens, of requests that start or resume
  std::vector<int64_t> waiting_, running_;     // as look() found them
  std::vector<int> used_;                      // [passes] blocks
  std::optional<Shortage> shortage_;           // the last one
  std::vector<int64_t> ended_;                 // in the order of their ends
  int32_t next_token_ = 1000;
};

}  // namespace lesson08
