#pragma once

// The room of a picture in a text. A phone shows it at 3/5 of its size, so its letters are larger
// and its columns fewer than in a window of this width.

#include <algorithm>

#include "viz/drawing/scene.h"

namespace viz {

inline constexpr float kTextWidth = 600;   // every picture of viz/shell/pictures.txt
inline constexpr float kTextLetters = 12;  // the least size
inline constexpr float kLargest = 51.5f;   // of a window's largest font: larger is blurred

inline bool is_in_text(const Room& room) { return room.w == kTextWidth; }

/// Too narrow for a text's picture with letters of 11 points: things stand below one another.
inline bool is_narrow(const auto& room) { return room.w < kTextWidth * 11 / kTextLetters; }

/// `size` of an ordinary text, or what is comfortable in a window that has room for it.
inline float roomy(const Room& room, float size) {
  return room.w >= 1200 && size >= 12 ? std::max(size, 14.0f) : size;
}

/// `size`, or what can be read in a text.
inline float readable(const Room& room, float size) {
  return is_in_text(room) ? std::max(size, kTextLetters) : size;
}

}  // namespace viz
