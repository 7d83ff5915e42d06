#pragma once

// The picture of a page on which nothing has been done.

#include <string_view>

#include "viz/drawing/text_room.h"

namespace viz {

/// Says where to begin. In a text, where a film may begin with it, it is empty.
inline Scene empty_scene(const Room& room, std::string_view words) {
  Scene scene(room);
  if (is_in_text(room)) return scene;
  scene.box("empty/panel", {1, 1, room.w - 2, room.h - 2}, paint(Ink::kPanel)).radius = 8;
  scene.paragraph("empty", {24, 0.4f * room.h, room.w - 48, 60}, words,
                  {.size = 16, .paint = {Ink::kDim}});
  return scene;
}

}  // namespace viz
