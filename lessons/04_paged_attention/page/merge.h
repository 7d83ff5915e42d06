#pragma once

// m, l and acc as the page of lesson 04 shows them. One row has the earlier keys and one those that
// join, both scaled to the larger m; a third row has their merge.

#include <vector>

#include "cli/walk.h"
#include "viz/drawing/scene.h"

namespace lesson04 {

/// "A/acc 5" and so on, for A the name of what is in the row ("tile 3", "group 0", "result"); of
/// the last row "now/acc 5".
void draw_merge(viz::Scene& scene, const std::vector<WalkStep>& steps, int position,
                const viz::Place& at, float unit);

}  // namespace lesson04
