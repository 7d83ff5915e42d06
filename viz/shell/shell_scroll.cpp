// Scrolling of a picture that is larger than its place: by a finger, and to its changed part.

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/shell/shell.h"

namespace viz {

void Shell::pan_picture(float part, double seconds) {
  const Room by = std::exchange(pan_, {0, 0});
  if (ImGui::GetScrollMaxX() + ImGui::GetScrollMaxY() == 0) {
    changed_ = {};
    return;
  }
  ImGui::SetScrollX(ImGui::GetScrollX() - by.w);
  ImGui::SetScrollY(ImGui::GetScrollY() - by.h);
  if (changed_ != Place{}) scroll_to_change(part, seconds);
  const ImVec2 corner = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  panned_ = {corner.x, corner.y, size.x, size.y};
}

/// Scrolls to the part that the last command changed: at once without motion, else over frames.
void Shell::scroll_to_change(float part, double seconds) {
  const float scale = part * ui_.scale(), edge = 8 * ui_.scale();
  const ImVec2 view = ImGui::GetCurrentWindow()->InnerRect.GetSize();
  const Place at{changed_.x * scale - edge, changed_.y * scale - edge,
                 changed_.w * scale + 2 * edge, changed_.h * scale + 2 * edge};
  const float x = ImGui::GetScrollX(), y = ImGui::GetScrollY();
  const float right =
      std::clamp(scrolled_to(x, view.x, at.x, at.right()), 0.0f, ImGui::GetScrollMaxX()) - x;
  const float down =
      std::clamp(scrolled_to(y, view.y, at.y, at.bottom()), 0.0f, ImGui::GetScrollMaxY()) - y;
  const bool glides = motion && seconds > 0 && std::abs(right) + std::abs(down) > 2;
  const float share = glides ? std::min(1.0f, 8 * static_cast<float>(seconds)) : 1;
  const auto step = [&](float way) {  // whole pixels, as Dear ImGui scrolls by these alone
    return way > 0 ? std::ceil(share * way) : std::floor(share * way);
  };
  ImGui::SetScrollX(x + step(right));
  ImGui::SetScrollY(y + step(down));
  if (!glides) changed_ = {};
}

}  // namespace viz
