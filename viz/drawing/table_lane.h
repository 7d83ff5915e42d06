#pragma once

// A block table as a lane: its entries, and above them the tokens whose slots they hold.

#include <span>
#include <string>

#include "viz/drawing/parts.h"

namespace viz {

struct LaneStyle {
  Place at = {};
  float unit = 1;       // how large everything is
  bool tokens = true;   // else the table alone
  int focus = 0;        // the entry that must be seen with its tokens
  int pool_blocks = 1;  // a table that holds all of them is as wide as the lane
};
inline constexpr float kLaneName = 62;      // width, times the unit
inline constexpr float kLaneRow = 24;       // height of a row, times the unit
inline constexpr float kLaneGap = 8;        // between two lanes
inline constexpr float kTokensToTable = 9;  // between the rows: there are lines in it

/// The name "A/name" (a click selects "A"), entries "A/entry 0" with their block "A/entry 0/id",
/// tokens "A/token 0" with their text "A/token 0/text". Tokens that do not fit are folded, those of
/// the focus last: bars "A/folded 0" over plain entries, or over runs of them "A/run 0". Each
/// lights its block. `texts`: of the tokens known; those beyond the table have no slot.
void lane(Scene& scene, const TableView& table, std::span<const std::string> texts,
          const LaneStyle& style);

}  // namespace viz
