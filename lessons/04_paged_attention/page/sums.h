#pragma once

// m, l and acc as the page of lesson 04 shows them: a row for each state before the step, scaled by
// its factor if it has one, and a last row for what the step made of them.

#include "cli/walk.h"
#include "viz/drawing/scene.h"

namespace lesson04 {

using Kind = WalkStep::Kind;
inline constexpr int kHue = 0;  // there is one sequence

/// "A/acc 5" and so on, for A the name of what is in the row ("group 0", "result"); of the last row
/// "now/acc 5".
void draw_sums(viz::Scene& scene, const WalkStep& step, const viz::Place& at, float unit);

}  // namespace lesson04
