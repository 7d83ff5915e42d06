// Scrolling of a page or picture that is taller than its place: by a finger, and to what changed.

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/shell/shell.h"

namespace viz {

void Shell::pan_picture(float part, double seconds) {
  const float by = std::exchange(pan_, 0.0f);
  const bool is_covered = help_ || opening_ || listing_;
  if (ImGui::GetScrollMaxY() == 0 || is_covered) {
    changed_ = {};
    return;
  }
  ImGui::SetScrollY(ImGui::GetScrollY() - by);
  if (changed_ != Place{}) scroll_to_change(part, seconds);
  scrolled_ = ImGui::GetScrollY() / ImGui::GetScrollMaxY();
  const ImVec2 corner = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  panned_ = {corner.x, corner.y, size.x, size.y};
}

/// Scrolls to the part that the last command changed: at once without motion, else over frames.
void Shell::scroll_to_change(float part, double seconds) {
  const float scale = part * ui_.scale(), edge = 8 * ui_.scale(), y = ImGui::GetScrollY();
  const float to = scrolled_to(y, ImGui::GetWindowHeight(), changed_.y * scale - edge,
                               changed_.bottom() * scale + edge);
  const float down = std::clamp(to, 0.0f, ImGui::GetScrollMaxY()) - y;
  const bool glides = motion && seconds > 0 && std::abs(down) > 2;
  const float way = down * (glides ? std::min(1.0f, 8 * static_cast<float>(seconds)) : 1);
  ImGui::SetScrollY(y + (way > 0 ? std::ceil(way) : std::floor(way)));  // it takes whole pixels
  if (!glides) changed_ = {};
}

}  // namespace viz
