// Widgets for what happens over time and for numbers: a grid of steps, pieces, bars, rows of
// colours.

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/drawing.h"
#include "viz/palette.h"
#include "viz/widgets.h"

namespace viz {
namespace {

Colour of_kind(const StepGridView::Kind& kind) {
  return with_alpha(hue(kind.hue),
                    static_cast<uint32_t>(255 * std::clamp(kind.strength, 0.f, 1.f)));
}

/// Names of the kinds, each after its colour.
float legend(ImDrawList& list, const ImVec2& origin, const StepGridView& view, float s) {
  float x = origin.x;
  for (const StepGridView::Kind& kind : view.kinds) {
    list.AddRectFilled(ImVec2(x, origin.y + 3 * s), ImVec2(x + 14 * s, origin.y + 17 * s),
                       of_kind(kind), 3 * s);
    text_at(list, x + 20 * s, origin.y + 2 * s, kDim, kind.name);
    x += 44 * s + ImGui::CalcTextSize(kind.name.c_str()).x;
  }
  return 28 * s;
}

/// Blue below zero, orange above, dark at zero.
Colour of_value(float value, float largest) {
  const float share = largest > 0 ? std::clamp(value / largest, -1.0f, 1.0f) : 0;
  const auto alpha = static_cast<uint32_t>(255 * std::sqrt(std::abs(share)));
  return with_alpha(share < 0 ? hue(0) : hue(1), alpha);
}

}  // namespace

void step_grid(Ui& ui, const std::string& name, const StepGridView& view) {
  const auto [s, top, room, list] = canvas(ui);
  const float y0 = top.y + legend(list, top, view, s), left = 70 * s;
  size_t columns = 1;
  for (const StepGridView::Row& row : view.rows) columns = std::max(columns, row.cells.size());
  const float pitch = std::clamp((room - left) / static_cast<float>(columns), 2 * s, 22 * s);
  const float gap = pitch > 8 * s ? 2 * s : s / 2;
  for (size_t r = 0; r < view.rows.size(); ++r) {
    const StepGridView::Row& row = view.rows[r];
    const float y = y0 + static_cast<float>(r) * pitch;
    if (scrolled_away(list, y, pitch)) continue;
    if (pitch >= 14 * s || r % 8 == 0) text_at(list, top.x, y, kDim, row.label);
    for (size_t c = 0; c < row.cells.size(); ++c) {
      const StepGridView::Kind& kind = view.kinds.at(static_cast<size_t>(row.cells[c]));
      const ImVec2 a(top.x + left + static_cast<float>(c) * pitch, y);
      const ImVec2 b(a.x + pitch - gap, y + pitch - gap);
      list.AddRectFilled(a, b, of_kind(kind), std::min(3 * s, pitch / 6));
      if (mouse_in(a, b)) {
        ui.tooltip(fmt::format("{}, token {}{}\n{}", row.label, c,
                               c < view.columns.size() ? " \"" + view.columns[c] + "\"" : "",
                               kind.name));
      }
    }
  }
  const float height = y0 - top.y + static_cast<float>(view.rows.size()) * pitch + 6 * s;
  take_room(ui, name, top, room, height);
}

void bars(Ui& ui, const std::string& name, const BarsView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float h = view.height * s;
  float low = 0, high = 0;
  for (const float value : view.values) low = std::min(low, value), high = std::max(high, value);
  const float span = high > low ? high - low : 1;
  const float zero = origin.y + h * high / span;
  list.AddRectFilled(origin, ImVec2(origin.x + room, origin.y + h), kPanel, 4 * s);
  const auto n = static_cast<float>(std::max<size_t>(view.values.size(), 1));
  const float pitch = std::min(room / n, 24 * s);
  for (size_t i = 0; i < view.values.size(); ++i) {
    const float x = origin.x + static_cast<float>(i) * pitch;
    const float end = zero - h * view.values[i] / span;
    list.AddRectFilled(ImVec2(x, std::min(end, zero)),
                       ImVec2(x + std::max(pitch - 1.5f * s, s), std::max(end, zero)),
                       with_alpha(hue(view.hue), 220));
    if (mouse_in(ImVec2(x, origin.y), ImVec2(x + pitch, origin.y + h))) {
      ui.tooltip(fmt::format("{}\n{:.6g}", i < view.names.size() ? view.names[i] : "",
                             static_cast<double>(view.values[i])));
    }
  }
  list.AddLine(ImVec2(origin.x, zero), ImVec2(origin.x + room, zero), kLine, s);
  take_room(ui, name, origin, room, h + 2 * s);
}

void heat_row(Ui& ui, const std::string& name, const HeatRowView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float left = 90 * s, h = 20 * s, most = std::max(40 * s, room - left);
  text_at(list, origin.x, origin.y + 2 * s, kDim, fitting(view.label, left - 6 * s));
  list.AddRectFilled(ImVec2(origin.x + left, origin.y),
                     ImVec2(origin.x + left + most, origin.y + h), kPanel, 3 * s);
  const float pitch = most / static_cast<float>(std::max<size_t>(view.values.size(), 1));
  for (size_t i = 0; i < view.values.size(); ++i) {
    const ImVec2 a(origin.x + left + static_cast<float>(i) * pitch, origin.y);
    const ImVec2 b(a.x + std::max(pitch - s / 2, s), origin.y + h);
    list.AddRectFilled(a, b, of_value(view.values[i], view.largest));
    if (mouse_in(a, b)) {
      ui.tooltip(fmt::format("{}, element {}\n{:.6g}", view.label, i,
                             static_cast<double>(view.values[i])));
    }
  }
  take_room(ui, name, origin, room, h + 2 * s);
}

void pieces(Ui& ui, const std::string& name, const PiecesView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float h = 30 * s;
  const int groups = view.pieces.empty() ? 0 : view.pieces.back().group;
  const float group_gap = 10 * s;
  const float pitch =
      std::min(96 * s, (room - static_cast<float>(groups) * group_gap) /
                           static_cast<float>(std::max<size_t>(view.pieces.size(), 1)));
  for (size_t i = 0; i < view.pieces.size(); ++i) {
    const PiecesView::Piece& piece = view.pieces[i];
    const auto index = static_cast<int>(i);
    const ImVec2 a(
        origin.x + static_cast<float>(i) * pitch + static_cast<float>(piece.group) * group_gap,
        origin.y);
    const ImVec2 b(a.x + pitch - 2 * s, origin.y + h);
    list.AddRectFilled(a, b, index < view.done ? with_alpha(hue(2), 120) : kCellFree, 4 * s);
    if (index == view.current) list.AddRect(a, b, kMark, 4 * s, 0, 2 * s);
    text_at(list, a.x + 6 * s, a.y + 7 * s, index < view.done ? kText : kDim,
            fitting(piece.label, pitch - 10 * s));
    if (mouse_in(a, b)) ui.tooltip(piece.tooltip);
  }
  take_room(ui, name, origin, room, h + 4 * s);
}

}  // namespace viz
