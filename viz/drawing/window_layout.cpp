#include "viz/drawing/window_layout.h"

#include <algorithm>
#include <cmath>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

constexpr float kBar = 13;   // points: of a phone's scrollbar, beside the picture
constexpr float kLow = 330;  // points: the picture of a lower window scrolls

/// Returns whether the picture scrolls to a change of the shape.
bool counts(const Shape& shape) {
  const bool is_visible = shape.fill.ink != Ink::kNone || shape.edge.ink != Ink::kNone;
  return shape.kind == Shape::Kind::kBox && is_visible && !shape.over && !shape.only_lit &&
         !shape.id.starts_with("legend/");
}

bool looks_like(const Shape& a, const Shape& b) {
  return a.fill == b.fill && a.edge == b.edge && a.pattern == b.pattern;
}

}  // namespace

WindowLayout window_layout(float width, float height, const Parts& parts) {
  constexpr float kEdge = 10, kGap = 8;
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
  const float tabs = layout.on_phone ? kFinger : 32;
  const bool tabs_beside = sideways && width >= 760;
  if (parts.tabs && !tabs_beside) layout.tabs = from_top(tabs);
  const bool acts_below = upright && parts.actions && !parts.film;
  if (parts.player && !acts_below) {
    const float rows = upright && parts.film ? 2 * kFinger + kGap : kFinger;
    layout.player = from_bottom(kEdge, inner, layout.on_phone ? rows : 36);
  }
  const bool has_side = parts.side && (layout.on_phone || width < kSmall || !parts.folded);
  const bool counts_apart = !parts.side || (parts.actions && !sideways);
  if (counts_apart) layout.counters = from_top(parts.counters);
  const float side =
      has_side ? std::round(std::clamp((sideways ? 0.29f : 0.235f) * width, 200.0f, 320.0f)) : 0;
  const float wide = upright || !has_side ? inner : inner - side - 12;
  if (sideways && has_side) {  // the sentence is below the controls
    const float words = std::round(0.3f * (bottom - top));
    const float x = kEdge + inner - side;
    if (parts.tabs && tabs_beside) layout.tabs = {x, top, side, tabs};
    const float below = std::max(top, layout.tabs.bottom() + kGap);
    layout.side = {x, below, side, bottom - below - kGap - words};
    layout.sentence = {layout.side.x, layout.side.bottom() + kGap, side, words};
  } else {
    if (acts_below) {
      const float rows = parts.side || inner >= 345 ? 2 : 3;
      layout.actions = from_bottom(kEdge, inner, rows * (kFinger + kGap) - kGap);
    }
    layout.sentence = from_bottom(kEdge, inner, upright ? 68.0f : height < 720 ? 46.0f : 54.0f);
    if (has_side && !upright) layout.side = {kEdge + inner - side, top, side, bottom - top};
  }
  if (parts.actions && !upright) layout.actions = from_bottom(kEdge, wide, sideways ? kFinger : 38);
  layout.main = {kEdge, top, wide, bottom - top};
  if (upright && parts.side) {  // the picture, and a button that says what is below it
    layout.way = from_bottom(kEdge, inner, kFinger);
    layout.main.h = bottom - top;
    layout.page = layout.main;
    if (!parts.actions) layout.main.h = std::round(0.6f * layout.main.h);
    const float y = layout.main.bottom() + kGap;
    layout.side = {kEdge, y, inner, std::max(bottom - y, 0.0f)};
  }
  return layout;
}

Room picture_room(const WindowLayout& layout, float tall) {
  const Place& main = layout.main;
  if (main.w >= kTextWidth && !layout.on_phone) return {main.w, std::max(main.h, kLow)};
  const Room narrow{main.w - kBar, std::max(main.h, tall)};
  if (is_narrow(narrow)) return narrow;
  return {kTextWidth, std::max(main.h / picture_part(layout), 475.0f)};
}

float picture_part(const WindowLayout& layout) {
  const Room place{layout.main.w - kBar, 0};
  return is_narrow(place) ? 1 : std::min(1.0f, place.w / kTextWidth);
}

Place changed_place(const Scene& before, const Scene& now) {
  Place all;
  for (const Shape& shape : now.shapes()) {
    if (!counts(shape)) continue;
    const Shape* const was = before.find(shape.id);
    if (was != nullptr && looks_like(*was, shape)) continue;
    const float top = all == Place{} ? shape.at.y : std::min(all.y, shape.at.y);
    all = {0, top, now.room().w, std::max(all.bottom(), shape.at.bottom()) - top};
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
