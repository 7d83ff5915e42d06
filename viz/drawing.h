#pragma once

// What the widgets have in common: text on a draw list, and a place that reserves its room.

#include <imgui.h>

#include <string>

#include "viz/palette.h"
#include "viz/ui.h"

namespace viz {

inline void text_at(ImDrawList& list, float x, float y, Colour colour, const std::string& text) {
  list.AddText(ImVec2(x, y), colour, text.data(), text.data() + text.size());
}

inline void text_right(ImDrawList& list, float x, float y, Colour colour, const std::string& text) {
  text_at(list, x - ImGui::CalcTextSize(text.c_str()).x, y, colour, text);
}

/// Where a widget draws: pixels per point, its corner, the room to the right of that.
struct Canvas {
  float s;
  ImVec2 origin;
  float room;
  ImDrawList& list;
};
inline Canvas canvas(const Ui& ui) {
  return {ui.scale(), ImGui::GetCursorScreenPos(), ui.width(), *ImGui::GetWindowDrawList()};
}

/// The font of big figures, half again as large (apply_theme loads it second).
inline ImFont* figure_font() {
  const ImVector<ImFont*>& fonts = ImGui::GetIO().Fonts->Fonts;
  return fonts.Size > 1 ? fonts[1] : ImGui::GetFont();
}

inline bool mouse_in(const ImVec2& a, const ImVec2& b) {
  return ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(a, b);
}

/// Nothing between y and y + h can be seen: pools and tables may be far longer than the window.
inline bool scrolled_away(const ImDrawList& list, float y, float h) {
  return y > list.GetClipRectMax().y || y + h < list.GetClipRectMin().y;
}

/// The longest beginning of the text that fits, whole characters of UTF-8 only.
inline std::string fitting(const std::string& text, float room) {
  std::string shown = text;
  while (!shown.empty() && ImGui::CalcTextSize(shown.c_str()).x > room) {
    while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xC0) == 0x80) {
      shown.pop_back();
    }
    if (!shown.empty()) shown.pop_back();
  }
  return shown;
}

/// The end of a widget: gives its rectangle a name and takes the room from the layout.
inline void take_room(Ui& ui, const std::string& name, const ImVec2& origin, float width,
                      float height) {
  ui.region(name, origin.x, origin.y, width, height);
  ImGui::Dummy(ImVec2(width, height));
}

}  // namespace viz
