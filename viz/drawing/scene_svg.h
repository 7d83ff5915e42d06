#pragma once

// Scenes as SVG: one as a still, or one after the other as an animation. Light or dark as the
// reader's system wants it, without script, the same bytes on every machine. Motion is CSS; a
// reader who asked for reduced motion sees one scene of them.

#include <cstdint>
#include <string>
#include <vector>

#include "viz/drawing/scene.h"

namespace viz {

/// Returns a picture without motion. `title` is read out by assistive software, and is the tooltip.
std::string svg_still(const Scene& scene, const std::string& title);

struct Frame {
  Scene scene;
  std::string caption;  // below the scene
  float motion = 0;     // seconds from the frame before to this one
  float hold = 1;       // seconds until the next one sets out
};
/// All scenes have the same room. Plays without end. `still`: the frame that stands for all where
/// nothing may move; else the last one.
std::string svg_animation(const std::vector<Frame>& frames, const std::string& title,
                          size_t still = SIZE_MAX);

}  // namespace viz
