#include "instruments/load/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/drawing/scene_svg.h"

namespace load {
namespace {

using viz::Align;
using viz::Ink;
using viz::paint;

constexpr float kLeft = 90, kRight = 700, kTop = 90, kBottom = 340;
constexpr viz::Room kRoom{860, 410};
constexpr int kPoints = 50;  // of a curve

/// The axis: powers of ten that hold all values.
struct Axis {
  int first = -3, last = 0;  // exponents of seconds

  explicit Axis(const Account& account) {
    double low = 1e9, high = 0;
    for (const auto* values :
         {&account.first_token, &account.between_tokens, &account.end_to_end}) {
      if (values->empty()) continue;
      low = std::min(low, Account::quantile(*values, 1.0 / kPoints));
      high = std::max(high, values->back());
    }
    if (high <= 0) return;
    first = static_cast<int>(std::floor(std::log10(std::max(low, 1e-6))));
    last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(std::max(high, 1e-5)))));
  }
  float x_of(double seconds) const {
    const double part = (std::log10(std::max(seconds, 1e-6)) - first) / (last - first);
    return kLeft + (kRight - kLeft) * static_cast<float>(std::clamp(part, 0.0, 1.0));
  }
};

float y_of(double share) { return kBottom - (kBottom - kTop) * static_cast<float>(share); }

std::string tick_of(int exponent) {
  if (exponent >= 0) return fmt::format("{} s", std::lround(std::pow(10, exponent)));
  if (exponent >= -3) return fmt::format("{} ms", std::lround(std::pow(10, exponent + 3)));
  return fmt::format("{} us", std::lround(std::pow(10, exponent + 6)));
}

void draw_axes(viz::Scene& scene, const Axis& axis) {
  for (int percent = 0; percent <= 100; percent += 25) {
    const float y = y_of(percent / 100.0);
    scene.line(fmt::format("grid {}", percent), kLeft, y, kRight, y, paint(Ink::kLine), 1);
    scene.label(fmt::format("percent {}", percent), {0, y - 9, kLeft - 10, 18},
                fmt::format("{} %", percent), {.paint = {Ink::kDim}, .align = Align::kRight});
  }
  for (int exponent = axis.first; exponent <= axis.last; ++exponent) {
    const float x = axis.x_of(std::pow(10, exponent));
    scene.line(fmt::format("decade {}", exponent), x, kTop, x, kBottom, paint(Ink::kLine), 1);
    scene.label(fmt::format("tick {}", exponent), {x - 40, kBottom + 8, 80, 18}, tick_of(exponent),
                {.paint = {Ink::kDim}, .align = Align::kCentre});
  }
}

void draw_curve(viz::Scene& scene, const Axis& axis, int index, const std::string& name,
                const std::vector<double>& values) {
  if (values.empty()) return;
  const viz::Paint colour = viz::full(index);
  float x0 = axis.x_of(values.front()), y0 = y_of(0);
  for (int i = 1; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    const float x = axis.x_of(Account::quantile(values, share)), y = y_of(share);
    scene.line(fmt::format("{}/{}", name, i), x0, y0, x, y, colour, 2.5f);
    x0 = x, y0 = y;
  }
  scene.label(name, {kRight + 14, kTop + 22 * static_cast<float>(index), kRoom.w - kRight - 14, 18},
              name, {.size = 14, .paint = colour});
}

}  // namespace

std::string plot(const std::string& title, const Account& account) {
  viz::Scene scene(kRoom);
  scene.label("heading", {24, 22, 800, 24}, "Share of the times up to each length", {.size = 17});
  scene.label("title", {24, 48, 800, 20}, title, {.paint = {Ink::kDim}});
  const Axis axis(account);
  draw_axes(scene, axis);
  draw_curve(scene, axis, 0, "between tokens", account.between_tokens);
  draw_curve(scene, axis, 1, "first token", account.first_token);
  draw_curve(scene, axis, 2, "end to end", account.end_to_end);
  return viz::svg_still(scene, "Times of a server's answers");
}

}  // namespace load
