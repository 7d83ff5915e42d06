#pragma once

// One scene of lesson 08's page. scene.cpp: the pool, reasons, and what moves when; cards.cpp: the
// lanes and the cards in them, the last pass, and all passes.

#include <algorithm>
#include <string>
#include <vector>

#include "page.h"
#include "viz/drawing/lanes.h"
#include "viz/drawing/pool_motion.h"

namespace lesson08 {

using viz::full;
using viz::Ink;
using viz::kHeading;
using viz::paint;
using viz::Place;
using viz::soft;
using viz::Span;
using viz::State;

/// Places of the parts: the lanes from left to right, the reason below, then the pass, its history,
/// and the pool.
struct Areas {
  explicit Areas(const viz::Room& room);
  Place waiting, running, ended, reason, pass, times, pool, legend;
};

/// When the parts of a story happen.
struct Acts {
  Span gives = {0, 0.4f}, goes = {0, 0.35f}, takes = {0.25f, 0.55f}, runs = {0.5f, 0.8f},
       grows = {0.6f, 0.85f}, ends = {0.8f, 1};
  float seconds = 0.7f;
};
/// A request wants blocks, the victim gives its own and goes to the waiting queue, and the blocks
/// are taken.
constexpr Acts kPreemption = {{0.16f, 0.4f},  {0.36f, 0.6f}, {0.6f, 0.75f}, {0.72f, 0.86f},
                              {0.78f, 0.95f}, {0.85f, 1},    2.4f};
/// A request ends: its card leaves before another one takes its place.
constexpr Acts kEnd = {{0, 0.3f},    {0.65f, 0.9f}, {0.75f, 1}, {0.05f, 0.3f},
                       {0.2f, 0.4f}, {0.4f, 0.65f}, 1.2f};
/// One scene of the page.
class Picture {
 public:
  Picture(const SchedulerPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // scene.cpp
  void draw_pool();
  void draw_moves();
  struct Reason {
    std::string words, about;
  };
  Reason reason() const;
  Reason why_preempted() const;
  const Seen* has_found() const;

  // cards.cpp
  void lane(const std::string& id, const Place& at);
  void draw_lanes();
  void card(const Seen& seen, const Place& at);
  void entries(const Seen& seen, const Place& at, Span when);
  void draw_pass();
  void draw_times();

  bool has(const std::vector<int64_t>& ids, const Seen& seen) const {
    return ran_ && !seen.ended && std::ranges::count(ids, seen.id) > 0;
  }
  bool has_ended(const Seen& seen) const {
    const Seen* const old = before_.seen.find(seen.name);
    return seen.ended && old != nullptr && !old->ended;
  }

  const SchedulerPage& page_;
  const Shown& now_;
  const Shown& before_;
  viz::Scene scene_;
  Areas areas_;
  bool ran_, preempts_;  // in the last command
  Acts acts_;
};

}  // namespace lesson08
