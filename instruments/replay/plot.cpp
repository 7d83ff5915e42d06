#include "instruments/replay/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/table.h"
#include "instruments/replay/caches.h"

namespace replay {
namespace {

constexpr double kLeft = 90, kRight = 740, kTop = 90, kBottom = 340;
constexpr double kWidth = 860, kHeight = 410;
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#52606d", "#009e73"};
static_assert(std::size(kColours) == std::size(kVictimNames), "each policy has its colour");

/// What XML would take for its own.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>' || c == '\'' || static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("&#{};", static_cast<int>(static_cast<unsigned char>(c) < 0x20 ? '?' : c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string words(double x, double y, const char* anchor, const std::string& text,
                  const char* colour = "#52606d", int size = 13) {
  return fmt::format(
      "<text x='{:.1f}' y='{:.1f}' text-anchor='{}' fill='{}' font-size='{}'>{}</text>\n", x, y,
      anchor, colour, size, escaped(text));
}

double y_of(double hit_rate) { return kBottom - (kBottom - kTop) * hit_rate; }

/// Names at the ends of lines that are close to each other stand below each other.
std::vector<double> places_of_names(const std::vector<Line>& lines) {
  constexpr double kApart = 17;
  std::vector<size_t> order(lines.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lines[a].hit_rates.back() > lines[b].hit_rates.back();
  });
  std::vector<double> places(lines.size());
  double lowest = 0;
  for (const size_t i : order) {
    lowest = places[i] = std::max(y_of(lines[i].hit_rates.back()), lowest + kApart);
  }
  return places;
}

}  // namespace

std::string plot(const std::string& title, const std::vector<int>& pool_blocks,
                 const std::vector<Line>& lines) {
  const double first = std::log2(pool_blocks.front()), last = std::log2(pool_blocks.back());
  const auto x_of = [&](int blocks) {
    return last > first ? kLeft + (kRight - kLeft) * (std::log2(blocks) - first) / (last - first)
                        : (kLeft + kRight) / 2;
  };
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "role='img' aria-label='Hit rate against pool size' font-family='system-ui, sans-serif'>\n"
      "<rect width='{0}' height='{1}' rx='12' fill='#ffffff' stroke='#cbd2d9'/>\n",
      kWidth, kHeight);
  svg += words(24, 40, "start", "Share of the full blocks found", "#1f2933", 17);
  svg += words(24, 63, "start", title);
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = y_of(percent / 100.0);
    svg += fmt::format("<line x1='{}' y1='{:.1f}' x2='{}' y2='{:.1f}' stroke='#cbd2d9'/>\n", kLeft,
                       y, kRight, y);
    svg += words(kLeft - 10, y + 4, "end", fmt::format("{} %", percent));
  }
  double written = -1e9;  // where the last number under the axis stands
  for (const int blocks : pool_blocks) {
    if (x_of(blocks) < written + 70) continue;
    written = x_of(blocks);
    svg += words(written, kBottom + 22, "middle", kv::with_commas(blocks));
  }
  svg += words((kLeft + kRight) / 2, kBottom + 46, "middle", "blocks in the pool");
  const std::vector<double> names = places_of_names(lines);
  for (size_t i = 0; i < lines.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    std::string points;
    for (size_t p = 0; p < pool_blocks.size(); ++p) {
      const double x = x_of(pool_blocks[p]), y = y_of(lines[i].hit_rates[p]);
      points += fmt::format("{}{:.1f},{:.1f}", p == 0 ? "" : " ", x, y);
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='{}'/>\n", x, y, colour);
    }
    svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2.5'/>\n",
                       points, colour);
    svg += words(kRight + 14, names[i] + 4, "start", lines[i].name, colour, 14);
  }
  return svg + "</svg>\n";
}

}  // namespace replay
