#pragma once

// A scene in the window: drawn into Dear ImGui's list, with what the mouse finds there. Every shape
// that can be clicked or hovered is a named region, so that tests and scripts find it by its id.

#include <vector>

#include "viz/drawing/motion.h"
#include "viz/ui.h"

namespace viz {

/// Click on a scene: a command to run, or a name to select; mostly neither.
struct SceneClick {
  std::string command, selects;
};
/// Draws at the cursor, in a room of scene.room(), and takes that room from the layout. `scene` is
/// what the mouse meets, `drawn` what is seen of it at this moment; `part` makes all of it smaller.
SceneClick draw_scene(Ui& ui, const Scene& scene, const std::vector<Drawn>& drawn, float part = 1);

}  // namespace viz
