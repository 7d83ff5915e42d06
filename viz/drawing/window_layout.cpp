#include "viz/drawing/window_layout.h"

#include <algorithm>
#include <cmath>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

// On a phone, in points: letters, the scrollbar below the picture, the room that pages need.
constexpr float kLeastLetters = 11, kBar = 13, kLeastHeight = 475;

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

WindowLayout window_layout(float width, float height, bool tabs) {
  constexpr float kEdge = 10, kGap = 8, kTabs = 32;
  const float inner = width - 2 * kEdge;
  const bool upright = width < 700 && height > width, sideways = width < 1000 && height < 480;
  const float player = upright ? 2 * kTouch + kGap : 32;
  const float side = std::round(std::clamp((sideways ? 0.29f : 0.235f) * width, 200.0f, 320.0f));
  const float sentence = upright ? 68.0f : height < 720 ? 46.0f : 54.0f;
  WindowLayout layout;
  layout.on_phone = upright || sideways;
  layout.upright = upright;
  layout.tabs = {kEdge, kGap, inner, kTabs};
  layout.player = {kEdge, height - kGap - player, inner, player};
  layout.sentence = {kEdge, layout.player.y - kGap - sentence, inner, sentence};
  const float top = tabs ? layout.tabs.bottom() + kGap : kGap;
  if (sideways) {
    const float tall = layout.player.y - kGap - top, words = std::round(0.3f * tall);
    layout.main = {kEdge, top, inner - side - 12, tall};
    layout.side = {kEdge + inner - side, top, side, tall - kGap - words};
    layout.sentence = {layout.side.x, layout.side.bottom() + kGap, side, words};
    return layout;
  }
  const float tall = layout.sentence.y - kGap - top;
  if (upright) {  // the picture, and the rest below it
    layout.main = {kEdge, top, inner, std::round(0.6f * tall)};
    layout.side = {kEdge, layout.main.bottom() + kGap, inner, tall - kGap - layout.main.h};
    return layout;
  }
  layout.side = {kEdge + inner - side, top, side, tall};
  layout.main = {kEdge, top, inner - side - 12, tall};
  return layout;
}

Place cards_place(const WindowLayout& layout) {
  Place at = layout.main;
  if (layout.on_phone) at.w = layout.tabs.w, at.h = layout.sentence.bottom() - at.y;
  return at;
}

Room picture_room(const WindowLayout& layout) {
  const Place& main = layout.main;
  if (main.w >= kTextWidth && !layout.on_phone) return {main.w, main.h};
  return {kTextWidth, std::max((main.h - kBar) / picture_part(layout), kLeastHeight)};
}

float picture_part(const WindowLayout& layout) {
  const float wide = layout.main.w - (layout.on_phone ? kBar : 0);
  return std::clamp(wide / kTextWidth, kLeastLetters / kTextLetters, 1.0f);
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
