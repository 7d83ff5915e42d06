#pragma once

// The pictures of lesson 02's page: slabs that are reserved in full, and one range with holes.

#include <string>
#include <vector>

#include "memory.h"
#include "viz/drawing/scene.h"

namespace lesson02 {

struct SlabView {
  int used = 0;
  bool done = false;  // its sequence has ended, and the slab stays reserved
  std::vector<std::string> words =
      {};  // of its tokens, if they are known; the last may not have run
};
struct SlabsView {
  int slots = 0;  // of each slab
  std::vector<SlabView> slabs;
};
/// Shapes: "slab 2", "slab 2/name", "slab 2/used"; or, with words, "slot 2/17", "slot 2/17/token".
/// `before`: the view before the last command.
viz::Scene slabs_scene(const viz::Room& room, const SlabsView& view, const SlabsView& before);

/// Shapes: "request A", in the range or in the "tray"; "hole 1024".
viz::Scene range_scene(const viz::Room& room, const Reservations& range);

}  // namespace lesson02
