#pragma once

// One scene of lesson 09's page. page_scene.cpp: where things are, the pool, and why it is as it
// is; page_lanes.cpp: requests, their blocks, and the tokens in them; page_history.cpp: the passes.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "page_lookahead.h"

namespace lesson09 {

using viz::Align;
using viz::full;
using viz::Ink;
using viz::paint;
using viz::Place;
using viz::soft;
using viz::Span;
using viz::State;

constexpr float kHeading = 18, kRibbon = 22;

struct Areas {
  explicit Areas(const viz::Room& room);
  Place lanes, passes, reason, pool, times, legend;
};

/// Tiles of one size: a block's number, and its slots from left to right.
struct Tiles {
  int columns = 1;
  float w = 0, h = 0, slot = 0;
  static constexpr float kGap = 5, kPad = 3;
  float number() const { return std::clamp(0.5f * h, 12.0f, 24.0f); }  // its width
  /// Of the blocks of a request, whose first one is in the corner.
  Place tile(int index, const Place& corner) const {
    const auto column = static_cast<float>(index % columns),
               row = static_cast<float>(index / columns);
    return {corner.x + column * (w + kGap), corner.y + row * (h + kGap), w, h};
  }
  Place slot_in(const Place& tile, int offset) const {
    const float x = tile.x + number() + slot * static_cast<float>(offset);
    return {x, tile.y + kPad, slot - 2, tile.h - 2 * kPad};
  }
};

/// What the token in a slot is.
enum class Look : uint8_t { kNone, kRan, kRuns, kGuess, kRight, kStruck };

class Picture {
 public:
  Picture(const LookaheadPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // page_lanes.cpp
  void fit_tiles();
  int rows_of(const Asked& asked, int columns) const;
  void draw_lanes();
  float ribbon(const Asked& asked, const Place& at);
  void tile(const Asked& asked, int index, const Place& at);
  void slot(const Asked& asked, int position, const Place& at);
  void draw_ngrams(const Asked& asked, const Part& part);
  void check_rows(const Asked& asked, const Part& part, const Place& corner);
  Look look_of(const Asked& asked, int position) const;
  std::string word_at(const Asked& asked, int position) const;
  static std::string slot_id(const Asked& asked, int position, int block_size);
  Span when(const Asked& asked, int position) const;

  // page_scene.cpp
  void draw_pool();
  void draw_reason();
  bool can_be_pointed_at(const viz::Shape* target) const;
  struct Reason {
    std::string words = {}, about = {};
  };
  Reason reason() const;
  Reason why_guessed(const Part& part) const;
  Reason why_struck(const Part& part) const;
  std::vector<int32_t> gone_back(const Part& part) const;

  // page_history.cpp
  void draw_passes();
  void draw_pass(const std::vector<Part>& parts, int number, bool has_run, const Place& at);
  void draw_times();
  void draw_bar(const std::string& id, const Place& at, const std::vector<int>& gains, int most,
                int hue);

  const Part* part_of(const Asked& asked) const {
    const auto part = std::ranges::find(page_.parts_, asked.id, &Part::id);
    return part == page_.parts_.end() ? nullptr : &*part;
  }

  const LookaheadPage& page_;
  const Shown& now_;
  viz::Scene scene_;
  Areas areas_;
  Tiles tiles_;
  bool guessed_, ran_;  // by the last command
};

}  // namespace lesson09
