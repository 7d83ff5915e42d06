#include "viz/drawing/window_layout.h"

#include <algorithm>
#include <cmath>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

// On a phone, in points: letters, the scrollbar beside the picture.
constexpr float kLeastLetters = 11, kBar = 13;

/// Returns whether the picture scrolls to a change of the shape.
bool counts(const Shape& shape) {
  const bool is_visible = shape.fill.ink != Ink::kNone || shape.edge.ink != Ink::kNone;
  return shape.kind == Shape::Kind::kBox && is_visible && !shape.over && !shape.only_lit &&
         !shape.id.starts_with("legend/");
}

bool looks_like(const Shape& a, const Shape& b) {
  return a.fill == b.fill && a.edge == b.edge && a.pattern == b.pattern;
}

Place around(const Place& a, const Place& b) {
  const float x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(a.right(), b.right()) - x, std::max(a.bottom(), b.bottom()) - y};
}

}  // namespace

WindowLayout window_layout(float width, float height, const Parts& parts) {
  constexpr float kEdge = 10, kGap = 8, kTabs = 32, kCounters = 42;
  const float inner = width - 2 * kEdge;
  const bool upright = width < 700 && height > width, sideways = width < 1000 && height < 480;
  WindowLayout layout;
  layout.on_phone = upright || sideways;
  layout.upright = upright;
  float top = kGap, bottom = height - kGap;
  const auto from_top = [&](float tall) {
    const Place at{kEdge, top, inner, tall};
    top = at.bottom() + kGap;
    return at;
  };
  const auto from_bottom = [&](float x, float wide, float tall) {
    const Place at{x, bottom - tall, wide, tall};
    bottom = at.y - kGap;
    return at;
  };
  if (parts.tabs) layout.tabs = from_top(kTabs);
  if (parts.player) {
    const float tall = !upright     ? (sideways ? 32.0f : 36.0f)
                       : parts.film ? 2 * kTouch + kGap
                                    : kTouch;
    layout.player = from_bottom(kEdge, inner, tall);
  }
  const bool counts_apart = !parts.side || (upright && parts.actions);
  if (counts_apart) layout.counters = from_top(kCounters);
  const float side =
      parts.side ? std::round(std::clamp((sideways ? 0.29f : 0.235f) * width, 200.0f, 320.0f)) : 0;
  const float wide = upright || !parts.side ? inner : inner - side - 12;
  if (sideways && parts.side) {  // the sentence is below the controls
    const float words = std::round(0.3f * (bottom - top));
    layout.side = {kEdge + inner - side, top, side, bottom - top - kGap - words};
    layout.sentence = {layout.side.x, layout.side.bottom() + kGap, side, words};
  } else {
    if (upright && parts.actions) {
      const float rows = parts.side ? 2 : 3;  // Undo and Reset stand there, too
      layout.actions = from_bottom(kEdge, inner, rows * (kTouch + kGap) - kGap);
    }
    layout.sentence = from_bottom(kEdge, inner, upright ? 68.0f : height < 720 ? 46.0f : 54.0f);
    if (parts.side && !upright) layout.side = {kEdge + inner - side, top, side, bottom - top};
  }
  if (parts.actions && !upright) layout.actions = from_bottom(kEdge, wide, kActions);
  layout.main = {kEdge, top, wide, bottom - top};
  if (upright && parts.side) {  // the picture, and the rest below it
    layout.main.h = std::round((parts.actions ? 0.72f : 0.6f) * layout.main.h);
    const float y = layout.main.bottom() + kGap;
    layout.side = {kEdge, y, inner, bottom - y};
  }
  return layout;
}

Room picture_room(const WindowLayout& layout, const Room& least) {
  const Place& main = layout.main;
  if (main.w >= kTextWidth && !layout.on_phone) return {main.w, main.h};
  const float wide = std::clamp(main.w - kBar, least.w, kTextWidth);
  const float tall = layout.upright ? least.h : std::min(least.h, 475.0f);
  return {wide, std::max((main.h - kBar) / picture_part(layout, least), tall)};
}

float picture_part(const WindowLayout& layout, const Room& least) {
  const float wide = layout.main.w - (layout.on_phone ? kBar : 0);
  return std::clamp(wide / std::clamp(wide, least.w, kTextWidth), kLeastLetters / kTextLetters,
                    1.0f);
}

Place changed_place(const Scene& before, const Scene& now) {
  Place all;
  for (const Shape& shape : now.shapes()) {
    if (!counts(shape)) continue;
    const Shape* const was = before.find(shape.id);
    if (was != nullptr && looks_like(*was, shape)) continue;
    all = all == Place{} ? shape.at : around(all, shape.at);
  }
  return all;
}

float scrolled_to(float scroll, float size, float from, float to) {
  if (to - from > size) {
    const bool is_seen = from < scroll + size && to > scroll;
    return is_seen ? scroll : from;
  }
  return std::clamp(scroll, to - size, from);
}

}  // namespace viz
