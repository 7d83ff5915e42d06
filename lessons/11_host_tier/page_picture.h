#pragma once

// One scene of lesson 11's page. page_scene.cpp: where things are, why it is as it is, and the
// controls; page_shelves.cpp: pools, and what moves between them; page_requests.cpp: requests, and
// all passes.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "page_tiers.h"

namespace lesson11 {

using viz::Align;
using viz::Ink;
using viz::paint;
using viz::Place;
using viz::Span;
using viz::State;

constexpr float kHeading = 18;
constexpr int kNumShelves = 3;  // that there is room for

// Of the motion of a command: what has landed goes to its place, and new moves begin.
constexpr Span kLands{0, 0.45f}, kFills{0.35f, 0.6f}, kBegins{0.5f, 1};

struct Areas {
  Areas(const viz::Room& room, int num_shelves);
  Place cards, reason, times, legend;
  std::vector<Place> shelves, links;
};

class Picture {
 public:
  Picture(const TiersPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // page_scene.cpp
  void draw_reason();
  void draw_legend();

  // page_shelves.cpp
  void draw_shelf(int shelf);
  void cell(int shelf, int32_t id, const Place& at);
  void draw_link(int tier);
  void chip(const Moving& moving, const Place& at);
  void land(const Moving& moving);
  void draw_ghosts();
  void ghost(int from, int to, int32_t id);
  int changed_from(int shelf, int32_t id) const;

  // page_requests.cpp
  void draw_cards();
  void card(const Asked& asked, const Place& at);
  void blocks(const Asked& asked, const Place& at);
  void draw_times();
  void row(const Asked& asked, const Place& at, size_t first, float column);
  void traffic_row(size_t tier, const Place& at, size_t first, float column);

  const TiersPage& page_;
  const Shown& now_;
  const Shown& before_;
  viz::Scene scene_;
  Areas areas_;
};

/// What a request does, in a word.
std::string word_of(Doing doing);

}  // namespace lesson11
