#include "viz/stage.h"

#include <algorithm>
#include <utility>

namespace viz {

void Stage::cut_to(Scene scene) { move_to(std::move(scene), 0); }

void Stage::move_to(Scene scene, float seconds) {
  tracks_ = tracks(scene_, scene);
  scene_ = std::move(scene);
  seconds_ = seconds;
  part_ = seconds > 0 ? 0.0f : 1.0f;
}

void Stage::advance(float seconds) {
  if (moving()) part_ = std::min(1.0f, part_ + seconds / seconds_);
}

void Stage::hold(float part) { part_ = std::clamp(part, 0.0f, 1.0f); }

}  // namespace viz
