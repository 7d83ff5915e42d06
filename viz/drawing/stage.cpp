#include "viz/drawing/stage.h"

#include <algorithm>
#include <utility>

namespace viz {

void Stage::cut_to(Scene scene) {
  scene_ = std::move(scene);
  tracks_ = tracks(scene_, scene_);
  show(1);
}

void Stage::move_to(Scene scene) {
  tracks_ = tracks(scene_, scene);
  scene_ = std::move(scene);
  show(0);
}

void Stage::advance(float seconds) {
  if (moving()) show(part_ + seconds / scene_.seconds());
}

void Stage::hold(float part) { show(part); }

void Stage::show(float part) {
  part_ = std::clamp(part, 0.0f, 1.0f);
  drawn_ = at_moment(tracks_, part_);
}

}  // namespace viz
