#include "viz/drawing/raster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/drawing/palette.h"

namespace viz {
namespace {

struct Point {
  double x, y;
};

/// Positive on the left of the way from a to b; the line itself is at zero.
struct Edge {
  double x, y, at_zero;

  Edge(const ImVec2& a, const ImVec2& b)
      : x(double{a.y} - double{b.y}),
        y(double{b.x} - double{a.x}),
        at_zero(-(x * double{a.x} + y * double{a.y})) {}
  double at(const Point& p) const { return x * p.x + y * p.y + at_zero; }
  /// By how much it differs at most between the centre of a pixel and any point in it.
  double reach() const { return (std::abs(x) + std::abs(y)) / 2; }
};

/// A convex polygon: a pixel, cut by the three edges of a triangle.
struct Polygon {
  std::array<Point, 8> points;
  size_t size = 0;

  void push(const Point& p) { points[size++] = p; }
  Polygon cut(const Edge& edge) const {
    Polygon rest;
    for (size_t i = 0; i < size; ++i) {
      const Point& p = points[i];
      const Point& q = points[(i + 1) % size];
      const double here = edge.at(p), there = edge.at(q);
      if (here >= 0) rest.push(p);
      if ((here >= 0) == (there >= 0)) continue;
      const double share = here / (here - there);
      rest.push({p.x + share * (q.x - p.x), p.y + share * (q.y - p.y)});
    }
    return rest;
  }
  /// Its area and its centre of gravity: what is linear over it has its mean there.
  std::pair<double, Point> area_and_centre() const {
    double area = 0;
    Point sum{0, 0};
    for (size_t i = 2; i < size; ++i) {
      const Point &o = points[0], &p = points[i - 1], &q = points[i];
      const double part = ((p.x - o.x) * (q.y - o.y) - (p.y - o.y) * (q.x - o.x)) / 2;
      area += part;
      sum.x += part * (o.x + p.x + q.x) / 3;
      sum.y += part * (o.y + p.y + q.y) / 3;
    }
    return {area, {sum.x / area, sum.y / area}};
  }
};

/// Between the four texels round the place.
double sample(const Atlas& atlas, double u, double v) {
  const double x = u * atlas.width - 0.5, y = v * atlas.height - 0.5;
  const auto x0 = static_cast<int>(std::floor(x)), y0 = static_cast<int>(std::floor(y));
  const auto texel = [&](int i, int j) {
    const int row = std::clamp(j, 0, atlas.height - 1), column = std::clamp(i, 0, atlas.width - 1);
    return static_cast<double>(atlas.alpha[row * atlas.width + column]);
  };
  const auto between = [&](int j) { return std::lerp(texel(x0, j), texel(x0 + 1, j), x - x0); };
  return std::lerp(between(y0), between(y0 + 1), y - y0) / 255;
}

Blend paint_of(const ImDrawVert& corner) {
  const auto channel = [&](int q) { return static_cast<double>(corner.col >> (8 * q) & 255); };
  return {channel(0), channel(1), channel(2), channel(3), double{corner.uv.x}, double{corner.uv.y}};
}

struct Triangle {
  std::array<Edge, 3> edges;  // each opposite to its corner
  std::array<Blend, 3> paints;
  double twice_area;

  explicit Triangle(std::array<const ImDrawVert*, 3> at)
      : edges{Edge(at[1]->pos, at[2]->pos), Edge(at[2]->pos, at[0]->pos),
              Edge(at[0]->pos, at[1]->pos)},
        paints{paint_of(*at[0]), paint_of(*at[1]), paint_of(*at[2])},
        twice_area(edges[0].at({double{at[0]->pos.x}, double{at[0]->pos.y}})) {
    if (twice_area >= 0) return;
    std::swap(at[1], at[2]);
    *this = Triangle(at);
  }
  /// Area and centre of what the triangle has in common with a pixel and the clip rectangle.
  std::pair<double, Point> part_in(int x, int y, const ImVec4& clip) const {
    const double left = std::max<double>(x, clip.x), right = std::min<double>(x + 1, clip.z);
    const double top = std::max<double>(y, clip.y), bottom = std::min<double>(y + 1, clip.w);
    const Point middle{x + 0.5, y + 0.5};
    bool whole = right - left == 1 && bottom - top == 1;
    for (const Edge& edge : edges) {
      if (edge.at(middle) <= -edge.reach()) return {0, middle};
      whole = whole && edge.at(middle) >= edge.reach();
    }
    if (whole) return {1, middle};
    Polygon part{.points = {{{left, top}, {right, top}, {right, bottom}, {left, bottom}}},
                 .size = 4};
    for (const Edge& edge : edges) part = part.cut(edge);
    return part.area_and_centre();
  }
  Blend paint_at(const Point& point) const {
    Blend paint{};
    for (size_t i = 0; i < 3; ++i) {
      const double weight = edges[i].at(point) / twice_area;
      for (size_t q = 0; q < paint.size(); ++q) paint[q] += weight * paints[i][q];
    }
    return paint;
  }
};

}  // namespace

Raster::Raster(int width, int height, const Atlas& atlas)
    : width_(width), height_(height), atlas_(atlas), left_(width), top_(height) {
  const size_t count = static_cast<size_t>(width) * static_cast<size_t>(height);
  const auto ground = [](int q) {
    return static_cast<float>(window_theme->ground >> (8 * q) & 255);
  };
  pixels_.assign(count, {ground(0), ground(1), ground(2)});
  shape_.assign(count, {});
}

void Raster::draw(const ImDrawList& list) {
  for (const ImDrawCmd& command : list.CmdBuffer) {
    unsigned last = 0;  // vertex of the shape
    for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
      const ImDrawIdx* index = &list.IdxBuffer[static_cast<int>(command.IdxOffset + i)];
      const auto [low, high] = std::minmax({index[0], index[1], index[2]});
      if (low > last) finish_shape();
      last = std::max<unsigned>(last, high);
      const auto vertex = [&](ImDrawIdx k) {
        return &list.VtxBuffer[static_cast<int>(command.VtxOffset + k)];
      };
      triangle({vertex(index[0]), vertex(index[1]), vertex(index[2])}, command.ClipRect);
    }
    finish_shape();
  }
}

void Raster::triangle(const Corners& corners, const ImVec4& clip) {
  const Triangle triangle(corners);
  if (triangle.twice_area <= 0) return;
  const auto [x_low, x_high] =
      std::minmax({corners[0]->pos.x, corners[1]->pos.x, corners[2]->pos.x});
  const auto [y_low, y_high] =
      std::minmax({corners[0]->pos.y, corners[1]->pos.y, corners[2]->pos.y});
  const int x0 = std::max(0, static_cast<int>(std::floor(std::max(x_low, clip.x))));
  const int y0 = std::max(0, static_cast<int>(std::floor(std::max(y_low, clip.y))));
  const int x1 = std::min(width_, static_cast<int>(std::ceil(std::min(x_high, clip.z))));
  const int y1 = std::min(height_, static_cast<int>(std::ceil(std::min(y_high, clip.w))));
  left_ = std::min(left_, x0), right_ = std::max(right_, x1);
  top_ = std::min(top_, y0), bottom_ = std::max(bottom_, y1);
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      const auto [area, centre] = triangle.part_in(x, y, clip);
      if (area > 0) add(x, y, area, triangle.paint_at(centre));
    }
  }
}

/// Adds a part of the triangle to a pixel; `paint` is what is drawn at that part's centre.
void Raster::add(int x, int y, double area, const Blend& paint) {
  const auto [red, green, blue, opacity, u, v] = paint;
  const double alpha = area * opacity / 255 * sample(atlas_, u, v);
  std::array<float, 4>& sum = shape_[index(x, y)];
  sum[0] += static_cast<float>(alpha * red);
  sum[1] += static_cast<float>(alpha * green);
  sum[2] += static_cast<float>(alpha * blue);
  sum[3] += static_cast<float>(alpha);
}

void Raster::finish_shape() {
  for (int y = top_; y < bottom_; ++y) {
    for (int x = left_; x < right_; ++x) {
      const std::array<float, 4> sum = std::exchange(shape_[index(x, y)], {});
      const float rest = 1 - std::min(sum[3], 1.0f);
      std::array<float, 3>& pixel = pixels_[index(x, y)];
      for (size_t q = 0; q < 3; ++q) pixel[q] = pixel[q] * rest + sum[q];
    }
  }
  left_ = width_, top_ = height_, right_ = bottom_ = 0;
}

std::vector<uint8_t> Raster::bytes() const {
  std::vector<uint8_t> bytes;
  bytes.reserve(pixels_.size() * 3);
  for (const auto& pixel : pixels_) {
    for (const float value : pixel) {
      bytes.push_back(static_cast<uint8_t>(std::clamp<long>(std::lround(value), 0, 255)));
    }
  }
  return bytes;
}

}  // namespace viz
