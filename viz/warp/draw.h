#pragma once

// The pictures of the page about one warp: its lanes and what they touch, and the lines of source.

#include <optional>
#include <string>

#include "viz/ui.h"
#include "viz/warp/traffic.h"

namespace viz {

/// The lanes in a row, a line from each to the bytes it wants in the sectors below (global memory)
/// or to its word in the banks below, a row for each pass (shared memory). `followed`: the lane
/// whose lines stand out; -1: none. Returns the lane under the mouse.
std::optional<int> warp_picture(Ui& ui, const std::string& name, const TrafficLine& line,
                                const WarpRequest& request, int followed);

/// A row for each line of source: how often it ran, what it moves and at least has to, how much of
/// that was wanted. Returns the row under the mouse.
std::optional<int> source_lines(Ui& ui, const std::string& name, const Traffic& traffic,
                                int current);

}  // namespace viz
