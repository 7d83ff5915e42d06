#pragma once

// Draws what ImGui laid out into memory, so that a picture is the same on every CPU. A vertex may
// differ in its last bits between machines; no colour may jump because of that. So a shape covers
// each pixel by the exact area of their common part, never by whether it hits the pixel's centre.

#include <imgui.h>

#include <array>
#include <cstdint>
#include <vector>

namespace viz {

/// Coverage of the font atlas, [height, width] bytes.
struct Atlas {
  const uint8_t* alpha;
  int width, height;
};

/// Values of a corner, which the points between corners have in proportion: red, green, blue and
/// alpha of 255, u and v in the atlas.
using Blend = std::array<double, 6>;

class Raster {
 public:
  Raster(int width, int height, const Atlas& atlas);
  void draw(const ImDrawList& list);
  /// [height, width, 3] bytes.
  std::vector<uint8_t> bytes() const;

 private:
  using Corners = std::array<const ImDrawVert*, 3>;
  void triangle(const Corners& corners, const ImVec4& clip);
  void add(int x, int y, double area, const Blend& paint);
  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x);
  }
  void finish_shape();

  int width_, height_;
  Atlas atlas_;
  std::vector<std::array<float, 3>> pixels_;
  // Triangles that share vertices are one shape: they are added up here, and only their sum is
  // blended, or the seams between them would show. Colour times alpha, and alpha.
  std::vector<std::array<float, 4>> shape_;
  int left_, top_, right_ = 0, bottom_ = 0;  // where the shape is
};

}  // namespace viz
