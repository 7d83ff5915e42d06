#pragma once

// Shows scenes one after the other: holds the motion from the last one to this one, and its clock.

#include <vector>

#include "viz/motion.h"

namespace viz {

class Stage {
 public:
  /// Shows the scene at once.
  void cut_to(Scene scene);
  /// Moves there from what is shown, in so many seconds; 0: a cut.
  void move_to(Scene scene, float seconds);
  void advance(float seconds);
  /// Stands still at a part of the motion, 0 to 1.
  void hold(float part);
  bool moving() const { return part_ < 1; }

  const Scene& scene() const { return scene_; }
  /// What can be seen now, in the order in which it is drawn.
  std::vector<Drawn> drawn() const { return at_moment(tracks_, part_); }

 private:
  Scene scene_;
  std::vector<Track> tracks_;
  float seconds_ = 0, part_ = 1;
};

}  // namespace viz
