#pragma once

// Single shapes as elements of an SVG file, and the frame of the file around them.

#include <set>
#include <string>
#include <utility>

#include "viz/drawing/scene.h"

namespace viz {

/// One decimal, without a zero that says nothing. A little more than a tie, so that the last bit of
/// a sum decides nothing.
std::string svg_number(float value);
/// "h3", "t": the name of a paint's colour.
std::string svg_name(const Paint& paint);
/// "#0072b2": the paint's colour on a light ground. The file's style replaces it on a dark one.
std::string svg_colour(const Paint& paint);

/// Draws shapes, and remembers which patterns they use.
class SvgPen {
 public:
  /// `attributes`: more of them, for each part of it.
  std::string draw(const Shape& shape, const std::string& attributes);
  std::string definitions() const;

 private:
  std::string box(const Shape& shape, const std::string& attributes);
  std::string pattern(const Shape& shape, const std::string& attributes);

  std::set<std::pair<Pattern, std::pair<std::string, std::string>>> patterns_;  // name and colour
};

/// `below`: room under the scene, in points. `style`: rules besides the colours.
std::string svg_document(const Room& room, float below, const std::string& title,
                         const std::string& style, const std::string& body);

}  // namespace viz
