#pragma once

// One scene of lesson 09's page. scene.cpp: the layout, the pool, and the reason that is shown;
// lanes.cpp: requests, their blocks, and the tokens in them; history.cpp: the passes.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lookahead.h"
#include "viz/drawing/lanes.h"

namespace lesson09 {

using viz::full;
using viz::Ink;
using viz::kHeading;
using viz::paint;
using viz::Place;
using viz::soft;
using viz::Span;
using viz::State;

struct Areas {
  explicit Areas(const viz::Room& room);
  Place lanes, passes, reason, pool, times, legend;
};

class Picture {
 public:
  Picture(const LookaheadPage& page, const viz::Room& room);
  viz::Scene drawn();

 private:
  // lanes.cpp
  int rows_of(const Asked& asked, int columns) const;
  void fit_blocks();
  void draw_lanes();
  void name(const Asked& asked, const Place& at);
  void blocks(const Asked& asked, const Place& corner);
  void slot(const Asked& asked, int position, const Place& at);
  void draw_ngrams(const Asked& asked, const Part& part);
  void check_rows(const Asked& asked, const Part& part, const Place& corner);
  std::optional<State> state_of(const Asked& asked, int position) const;
  std::string word_at(const Asked& asked, int position) const;
  std::string slot_id(const Asked& asked, int position) const;
  Span when(const Asked& asked, int position) const;

  // scene.cpp
  void draw_pool();
  struct Reason {
    std::string words = {}, about = {};
  };
  Reason reason() const;
  Reason why_guessed(const Part& part) const;
  Reason why_struck(const Part& part) const;
  std::vector<int32_t> gone_back(const Part& part) const;

  // history.cpp
  void draw_passes();
  void draw_pass(const std::vector<Part>& parts, int number, bool has_run, const Place& at);
  void draw_times();

  const Part* part_of(const Asked& asked) const {
    const auto part = std::ranges::find(page_.parts_, asked.id, &Part::id);
    return part == page_.parts_.end() ? nullptr : &*part;
  }

  const LookaheadPage& page_;
  const Shown& now_;
  viz::Scene scene_;
  Areas areas_;
  viz::WordBlocks blocks_;
  bool guessed_, ran_;  // by the last command
};

}  // namespace lesson09
