#pragma once

// One scene of lesson 10's page. scene.cpp: the layout, and the pool; lanes.cpp: requests, their
// tokens, and a table for each group; lookup.cpp: what a lookup found in each group.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "viz/drawing/lanes.h"
#include "windows.h"

namespace lesson10 {

using viz::Align;
using viz::full;
using viz::Ink;
using viz::kHeading;
using viz::paint;
using viz::Place;
using viz::soft;
using viz::Span;
using viz::State;

constexpr float kGroupName = 68;

// Parts of a command's motion: fallen blocks go back, found blocks come, then new ones, and the
// window slides.
constexpr Span kFalls{0.05f, 0.45f}, kFound{0, 0.4f}, kTaken{0.4f, 0.8f}, kSlides{0.45f, 0.95f};

/// `wanted`: height of the requests' lanes, if there is room for it.
struct Areas {
  Areas(const viz::Room& room, float wanted);
  Place lanes, reason, pool, lookup, legend;
};

/// The layout of a request's lane.
struct Lane {
  float unit = 0;                         // width of a token
  int entries = 0;                        // of the longest table, and some more
  float ribbon = 0, row = 0, tokens = 0;  // heights
  float gap = 4, pitch = 0;               // of lanes
  int size = 1;                           // tokens of a block
  /// Entry `index` of a table.
  Place blocks(const Place& lane, int index, float y, float h) const {
    const float w = unit * static_cast<float>(size);
    return {lane.x + kGroupName + w * static_cast<float>(index), y, w - 3, h};
  }
  float x_of(const Place& lane, int token) const {
    return lane.x + kGroupName + unit * static_cast<float>(token);
  }
};

class Picture {
 public:
  Picture(const WindowsPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // lanes.cpp
  static float wanted(const WindowsPage& page);
  void fit_lanes();
  void draw_lanes();
  float lane(const Asked& asked, const Place& at);
  void ribbon(const Asked& asked, const Place& at);
  void tokens(const Asked& asked, const Place& at);
  void table(const Asked& asked, int group, const Place& at);
  void entry(const Asked& asked, int group, int index, const Place& at);
  void null_entry(const Asked& asked, int group, int index, const Place& at);
  Place beside_the_frame(const Asked& asked, int index, const Place& at) const;
  void window(const Asked& asked, const Place& at);
  void let_fall();

  // scene.cpp
  void draw_pool();

  // lookup.cpp
  void draw_lookup();
  viz::Bar lookup_row(int group) const;
  viz::Bar lookup_result() const;

  /// The state in which a block that is held in this group is drawn.
  static State in_group(int group) { return group == 0 ? State::kInUse : State::kReserved; }
  int num_groups() const { return page_.manager().num_groups(); }
  int block_size() const { return page_.settings_.block_size; }

  const WindowsPage& page_;
  const Shown& now_;
  const Shown& before_;
  viz::Scene scene_;
  Areas areas_;
  Lane lane_;
};

}  // namespace lesson10
