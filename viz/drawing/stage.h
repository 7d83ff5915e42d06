#pragma once

// Shows scenes one after the other: holds the motion from the last one to this one, and its clock.

#include <vector>

#include "viz/drawing/motion.h"

namespace viz {

class Stage {
 public:
  /// Shows the scene at once.
  void cut_to(Scene scene);
  /// Moves there from the scene before, in the seconds that it asks for.
  void move_to(Scene scene);
  void advance(float seconds);
  /// Stands still at a part of the motion, 0 to 1.
  void hold(float part);
  bool moving() const { return part_ < 1; }

  const Scene& scene() const { return scene_; }
  /// Shapes that can be seen now, in the order in which they are drawn.
  const std::vector<Drawn>& drawn() const { return drawn_; }

 private:
  void show(float part);

  Scene scene_;
  std::vector<Track> tracks_;
  std::vector<Drawn> drawn_;
  float part_ = 1;
};

}  // namespace viz
