#include "instruments/route/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/drawing/scene_svg.h"

namespace route {
namespace {

using viz::Align;
using viz::Ink;
using viz::paint;

constexpr float kLeft = 240, kRight = 820, kTop = 112, kRow = 32;
constexpr float kShortest = 1e-3f;  // seconds; what is shorter is drawn there
constexpr double kShares[] = {.5, .9, .99};

/// The axis: powers of ten of a second that hold all times.
struct Axis {
  int first = -1, last = 0;

  explicit Axis(const std::vector<PolicyResult>& results) {
    double low = 1e9, high = kShortest;
    for (const PolicyResult& one : results) {
      low = std::min(low, one.first_token_at(kShares[0]));
      high = std::max(high, one.first_token_at(kShares[2]));
    }
    first = static_cast<int>(std::floor(std::log10(std::max<double>(low, kShortest))));
    last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high))));
  }
  float x_of(double seconds) const {
    const double part = (std::log10(std::max<double>(seconds, kShortest)) - first) / (last - first);
    return kLeft + (kRight - kLeft) * static_cast<float>(std::clamp(part, 0.0, 1.0));
  }
};

std::string tick_of(int exponent) {
  if (exponent >= 0) return fmt::format("{} s", std::lround(std::pow(10, exponent)));
  return fmt::format("{} ms", std::lround(std::pow(10, exponent + 3)));
}

void draw_axis(viz::Scene& scene, const Axis& axis, float bottom) {
  for (int exponent = axis.first; exponent <= axis.last; ++exponent) {
    const float x = axis.x_of(std::pow(10, exponent));
    scene.line(fmt::format("decade {}", exponent), x, kTop - 12, x, bottom, paint(Ink::kLine), 1);
    scene.label(fmt::format("tick {}", exponent), {x - 40, bottom + 6, 80, 18}, tick_of(exponent),
                {.paint = {Ink::kDim}, .align = Align::kCentre});
  }
  scene.label("axis", {kLeft, bottom + 28, kRight - kLeft, 18},
              "time to the first token: p50, p90 and p99",
              {.paint = {Ink::kDim}, .align = Align::kCentre});
  scene.label("hit rate", {130, kTop - 30, 90, 18}, "hit rate",
              {.paint = {Ink::kDim}, .align = Align::kRight});
}

void draw_row(viz::Scene& scene, const Axis& axis, const PolicyResult& result, float y) {
  const std::string name = name_of(result.policy);
  scene.label(name, {24, y - 9, 110, 18}, name, {.size = 14});
  scene.label(name + "/hits", {130, y - 9, 90, 18},
              fmt::format("{:.1f} %", 100 * result.hit_rate()),
              {.size = 14, .align = Align::kRight});
  const float from = axis.x_of(result.first_token_at(kShares[0])),
              to = axis.x_of(result.first_token_at(kShares[2]));
  scene.line(name + "/line", from, y, to, y, viz::full(0), 2);
  for (const double share : kShares) {
    const float x = axis.x_of(result.first_token_at(share));
    scene.box(fmt::format("{}/{}", name, share), {x - 4.5f, y - 4.5f, 9, 9}, viz::full(0)).radius =
        4.5f;
  }
}

}  // namespace

std::string plot(const std::string& title, const std::vector<PolicyResult>& results) {
  const float bottom = kTop + kRow * static_cast<float>(results.size());
  viz::Scene scene(viz::Room{880, bottom + 60});
  scene.label("heading", {24, 22, 800, 24}, "Where requests are sent, and how long they wait",
              {.size = 17});
  scene.label("title", {24, 48, 830, 20}, title, {.paint = {Ink::kDim}});
  const Axis axis(results);
  draw_axis(scene, axis, bottom);
  for (size_t i = 0; i < results.size(); ++i) {
    draw_row(scene, axis, results[i], kTop + kRow * (static_cast<float>(i) + .5f));
  }
  return viz::svg_still(scene, "Time to the first token under each policy");
}

}  // namespace route
