#pragma once

// One scene of lesson 11's page. scene.cpp: where things are, why it is as it is, and the
// controls; shelves.cpp: pools, and what moves between them; requests.cpp: requests, and
// all passes.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "page.h"

namespace lesson11 {

using viz::Align;
using viz::Ink;
using viz::paint;
using viz::Place;
using viz::Span;
using viz::State;

constexpr float kHeading = 18;

// Of the motion of a command: what has landed goes to its place, and new moves begin.
constexpr Span kLands{0, 0.45f}, kFills{0.35f, 0.6f}, kBegins{0.5f, 1};

struct Areas {
  explicit Areas(const viz::Room& room);
  Place cards, reason, times, legend;
  Place shelves[2], link;
};

class Picture {
 public:
  Picture(const HostTierPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // scene.cpp
  void draw_reason();
  void draw_legend();

  // shelves.cpp
  void draw_shelf(int shelf);
  void cell(int shelf, int32_t id, const Place& at);
  void draw_link();
  void chip(const Moving& moving, const Place& at);
  void land(const Moving& moving);
  void draw_ghosts();
  void ghost(int from, int to, int32_t id);
  int changed_from(int shelf, int32_t id) const;

  // requests.cpp
  void draw_cards();
  void card(const Asked& asked, const Place& at);
  void blocks(const Asked& asked, const Place& at);
  void draw_times();
  void row(const Asked& asked, const Place& at, size_t first, float column);
  void traffic_row(const Place& at, size_t first, float column);

  const HostTierPage& page_;
  const Shown& now_;
  const Shown& before_;
  viz::Scene scene_;
  Areas areas_;
};

/// What a request does, in a word.
std::string word_of(Doing doing);

}  // namespace lesson11
