#pragma once

// The picture of the page about one warp: its lanes, what they touch, and the lines of source.

#include <string>

#include "simt/page/traffic.h"
#include "viz/drawing/scene.h"

namespace viz {

struct WarpView {
  const Traffic* traffic = nullptr;
  int line = 0, request = 0;
  int followed = -1;   // the lane whose lines stand out; -1: none
  bool fresh = false;  // the last command has led to this request
};

/// "32 lanes want 128 bytes of the 1,024 in 32 sectors".
std::string sum_of(const TrafficLine& line, const WarpRequest& request);

/// Shapes: "lane 5", a click on which follows it; "wire 5/0" to what it wants: bytes "sector
/// 12/8" of "sector 12" (global memory), or a word in bank 3, "pass 2/3" (shared memory, a row for
/// each pass). Below them "line 2", a row for each line of source: how often it ran, what it moves
/// and at least has to, how much of that was wanted.
Scene warp_scene(const Room& room, const WarpView& view);

}  // namespace viz
