#pragma once

// One scene of lesson 08's page. scene.cpp: the pool, reasons, and what moves when; cards.cpp: the
// lanes and the cards in them; history.cpp: the last pass, and all passes.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "page.h"
#include "viz/drawing/lanes.h"

namespace lesson08 {

using viz::full;
using viz::Ink;
using viz::kHeading;
using viz::paint;
using viz::Place;
using viz::soft;
using viz::Span;
using viz::State;

/// Where things are: a queue from left to right, its reason below, then the pass, its history, and
/// the pool.
struct Areas {
  explicit Areas(const viz::Room& room);
  Place waiting, running, ended, reason, pass, times, pool, legend;
};

/// When the parts of a story happen.
struct Acts {
  Span gives = {0, 0.4f}, goes = {0, 0.35f}, takes = {0.25f, 0.55f}, runs = {0.5f, 0.8f},
       grows = {0.6f, 0.85f}, ends = {0.8f, 1};
};
/// A request wants blocks, the victim gives its own and goes to the waiting line, and they are
/// taken.
constexpr Acts kPreemption = {{0.16f, 0.4f},  {0.36f, 0.6f},  {0.6f, 0.75f},
                              {0.72f, 0.86f}, {0.78f, 0.95f}, {0.85f, 1}};
/// A request has ended before the pass, and others start in its place.
constexpr Acts kSuccession = {{0, 0.25f},    {0.3f, 0.55f}, {0.5f, 0.75f},
                              {0.7f, 0.85f}, {0.75f, 1},    {0.15f, 0.35f}};

/// One scene of the page.
class Picture {
 public:
  Picture(const SchedulerPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  void draw_pool();
  void draw_moves();
  void hint(int32_t block, Span when);
  void draw_lanes();
  void lane(const std::string& id, const Place& at, const std::string& title);
  void ring_victims(const viz::Grid& grid);
  void card(const Seen& seen, const Place& at);
  void card_head(const Seen& seen, const Place& at, float size, Span when);
  void entries(const Seen& seen, const Place& at, Span when);
  void draw_pass();
  void draw_times();
  struct Reason {
    std::string words, about;
  };
  Reason reason() const;
  Reason why_preempted() const;
  const Seen* has_found() const;
  std::vector<viz::LegendEntry> legend() const;

  bool has(const std::vector<int64_t>& ids, int64_t id) const {
    return ran_ && std::ranges::count(ids, id) > 0;
  }
  bool in_line(const Seen& seen) const { return std::ranges::count(page_.waiting_, seen.hue) > 0; }
  const Seen* before(const Seen& seen) const { return page_.before_.seen.find(seen.name); }
  bool has_ended(const Seen& seen) const {
    const Seen* old = before(seen);
    return seen.ended && old != nullptr && !old->ended;
  }
  bool changes_lane(const Seen& seen) const {
    const auto in = [&](const std::vector<int64_t>& lane) {
      return std::ranges::count(lane, seen.hue) > 0;
    };
    return has_ended(seen) || in(page_.running_) != in(page_.before_.running);
  }
  /// When the numbers of a card change.
  Span counts(const Seen& seen) const {
    return has_ended(seen) ? acts_.ends : changes_lane(seen) ? acts_.goes : acts_.grows;
  }

  const SchedulerPage& page_;
  viz::Scene scene_;
  Areas areas_;
  bool ran_, preempts_;  // in the last command
  Acts acts_;
  viz::Grid blocks_;
};

}  // namespace lesson08
