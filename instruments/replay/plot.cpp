#include "instruments/replay/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/table.h"
#include "viz/drawing/scene_svg.h"

namespace replay {
namespace {

using viz::Align;
using viz::Ink;
using viz::paint;

constexpr float kLeft = 90, kRight = 740, kTop = 90, kBottom = 340;
constexpr viz::Room kRoom{860, 410};

float y_of(double hit_rate) { return kBottom - (kBottom - kTop) * static_cast<float>(hit_rate); }

/// The places of pools of these sizes on the axis.
std::vector<float> places_of_pools(const std::vector<int>& pool_blocks) {
  const float first = std::log2(static_cast<float>(pool_blocks.front())),
              last = std::log2(static_cast<float>(pool_blocks.back()));
  std::vector<float> places;
  for (const int blocks : pool_blocks) {
    const float part =
        last > first ? (std::log2(static_cast<float>(blocks)) - first) / (last - first) : 0.5f;
    places.push_back(kLeft + (kRight - kLeft) * part);
  }
  return places;
}

/// Names at the ends of lines that are close to each other stand below each other.
std::vector<float> places_of_names(const std::vector<Line>& lines) {
  constexpr float kApart = 17;
  std::vector<size_t> order(lines.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lines[a].hit_rates.back() > lines[b].hit_rates.back();
  });
  std::vector<float> places(lines.size());
  float lowest = 0;
  for (const size_t i : order) {
    lowest = places[i] = std::max(y_of(lines[i].hit_rates.back()), lowest + kApart);
  }
  return places;
}

void draw_axes(viz::Scene& scene, const std::vector<int>& pool_blocks,
               const std::vector<float>& x_of) {
  for (int percent = 0; percent <= 100; percent += 20) {
    const float y = y_of(percent / 100.0);
    scene.line(fmt::format("grid {}", percent), kLeft, y, kRight, y, paint(Ink::kLine), 1);
    scene.label(fmt::format("percent {}", percent), {0, y - 9, kLeft - 10, 18},
                fmt::format("{} %", percent), {.paint = {Ink::kDim}, .align = Align::kRight});
  }
  float written = -1e9f;  // where the last number under the axis is
  for (size_t p = 0; p < pool_blocks.size(); ++p) {
    if (x_of[p] < written + 70) continue;
    written = x_of[p];
    scene.label(fmt::format("pool {}", p), {written - 35, kBottom + 8, 70, 18},
                kv::with_commas(pool_blocks[p]), {.paint = {Ink::kDim}, .align = Align::kCentre});
  }
  scene.label("axis", {kLeft, kBottom + 32, kRight - kLeft, 18}, "blocks in the pool",
              {.paint = {Ink::kDim}, .align = Align::kCentre});
}

}  // namespace

std::string plot(const std::string& title, const std::vector<int>& pool_blocks,
                 const std::vector<Line>& lines) {
  viz::Scene scene(kRoom);
  scene.label("heading", {24, 22, 800, 24}, "Share of the full blocks found", {.size = 17});
  scene.label("title", {24, 48, 800, 20}, title, {.paint = {Ink::kDim}});
  const std::vector<float> x_of = places_of_pools(pool_blocks), names = places_of_names(lines);
  draw_axes(scene, pool_blocks, x_of);
  for (size_t i = 0; i < lines.size(); ++i) {
    const viz::Paint colour = viz::full(static_cast<int>(i));
    for (size_t p = 0; p < x_of.size(); ++p) {
      const float x = x_of[p], y = y_of(lines[i].hit_rates[p]);
      const std::string id = fmt::format("{}/{}", lines[i].name, p);
      scene.box(id, {x - 3.5f, y - 3.5f, 7, 7}, colour).radius = 3.5f;
      if (p == 0) continue;
      scene.line(id + "/line", x_of[p - 1], y_of(lines[i].hit_rates[p - 1]), x, y, colour, 2.5f);
    }
    scene.label(lines[i].name, {kRight + 14, names[i] - 9, kRoom.w - kRight - 14, 18},
                lines[i].name, {.size = 14, .paint = colour});
  }
  return viz::svg_still(scene, "Hit rate against pool size");
}

}  // namespace replay
