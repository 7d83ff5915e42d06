#pragma once

// The picture of lesson 01's page: a row for each pass, a cell for each row of K and V in it.

#include <string>
#include <vector>

#include "viz/drawing/scene.h"

namespace lesson01 {

struct TriangleView {
  std::vector<int> passes;         // rows that each pass has computed: one for each token
  std::vector<std::string> words;  // of all known tokens
  size_t seen = 0;                 // passes that the scene before had
};

/// Shapes: "pass 3", its cells "row 3/0", "row 3/1", ..; words "token 5"; "needed", "computed".
viz::Scene triangle_scene(const viz::Room& room, const TriangleView& view);

}  // namespace lesson01
