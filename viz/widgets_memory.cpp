// Widgets for memory in one piece: slabs, a range with holes, a block's slots.

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

#include "viz/drawing.h"
#include "viz/palette.h"
#include "viz/widgets.h"

namespace viz {
namespace {

std::string percent_of(int64_t part, int64_t whole) {
  return fmt::format(
      "{:.1f} %", whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0);
}

/// Slanted lines: reserved and empty.
void hatch(ImDrawList& list, const ImVec2& a, const ImVec2& b, Colour colour, float s) {
  list.PushClipRect(a, b, true);
  const float h = b.y - a.y;
  for (float x = a.x - h; x < b.x; x += 9 * s) {
    list.AddLine(ImVec2(x, b.y), ImVec2(x + h, a.y), colour, 1.2f * s);
  }
  list.PopClipRect();
}

}  // namespace

void slabs(Ui& ui, const std::string& name, const std::vector<SlabView>& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float left = 110 * s, right = 110 * s, h = 26 * s, pitch = 34 * s;
  const float most = std::max(40 * s, room - left - right);
  int64_t widest = 1;
  for (const SlabView& slab : view) widest = std::max(widest, slab.reserved);
  float y = origin.y;
  for (const SlabView& slab : view) {
    const auto width = [&](int64_t slots) {
      return most * static_cast<float>(slots) / static_cast<float>(widest);
    };
    const Colour colour = hue(slab.sequence.hue);
    const float x = origin.x + left;
    const ImVec2 a(x, y), full(x + width(slab.used), y + h), b(x + width(slab.reserved), y + h);
    list.AddRectFilled(ImVec2(origin.x, y), ImVec2(origin.x + 5 * s, y + h), colour, 2 * s);
    text_at(list, origin.x + 12 * s, y + 5 * s, slab.active ? kText : kDim,
            fitting(slab.sequence.name, left - 18 * s));
    list.AddRectFilled(a, b, kPanel, 4 * s);
    hatch(list, ImVec2(full.x, a.y), b, with_alpha(colour, 60), s);
    list.AddRectFilled(a, full, with_alpha(colour, slab.active ? 190 : 90), 4 * s);
    list.AddRect(a, b, with_alpha(colour, 130), 4 * s, 0, s);
    text_right(list, origin.x + left + most + right - 4 * s, y + 5 * s, kDim,
               percent_of(slab.reserved - slab.used, slab.reserved) + " empty");
    if (mouse_in(a, b)) {
      ui.tooltip(fmt::format("{}: {} reserved, {} filled, {} empty", slab.sequence.name,
                             kv::count_of(slab.reserved, "slot"), slab.used,
                             slab.reserved - slab.used));
    }
    y += pitch;
  }
  take_room(ui, name, origin, room, std::max(y - origin.y, h));
}

void strip(Ui& ui, const std::string& name, const StripView& view) {
  const Canvas c = canvas(ui);  // clang 14 captures no structured bindings
  const float s = c.s, h = 46 * s, room = c.room;
  const ImVec2 origin = c.origin;
  ImDrawList& list = c.list;
  const auto at = [&](int64_t slot) {
    return origin.x + room * static_cast<float>(slot) / static_cast<float>(view.capacity);
  };
  list.AddRectFilled(origin, ImVec2(origin.x + room, origin.y + h), kPanel, 4 * s);
  int64_t end = 0;
  const auto hole = [&](int64_t from, int64_t to) {
    if (to <= from) return;
    const ImVec2 a(at(from), origin.y), b(at(to), origin.y + h);
    hatch(list, a, b, kLine, s);
    if (mouse_in(a, b))
      ui.tooltip(fmt::format("a hole of {}, from {} on", kv::count_of(to - from, "slot"), from));
  };
  for (const StripView::Range& range : view.ranges) {
    hole(end, range.begin);
    end = range.begin + range.size;
    const ImVec2 a(at(range.begin), origin.y), b(at(end) - s, origin.y + h);
    const Colour colour = hue(range.owner.hue);
    list.AddRectFilled(a, b, with_alpha(colour, 150), 4 * s);
    list.AddRectFilled(ImVec2(a.x, b.y - 4 * s), b, colour);
    text_at(list, a.x + 6 * s, a.y + 5 * s, kText, fitting(range.owner.name, b.x - a.x - 8 * s));
    text_at(list, a.x + 6 * s, a.y + 22 * s, kText,
            fitting(std::to_string(range.size), b.x - a.x - 8 * s));
    if (mouse_in(a, b)) {
      ui.tooltip(fmt::format("{}: {}, {} to {}", range.owner.name, kv::count_of(range.size, "slot"),
                             range.begin, end - 1));
    }
  }
  hole(end, view.capacity);
  take_room(ui, name, origin, room, h + 4 * s);
}

void slots(Ui& ui, const std::string& name, const SlotsView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const auto n = static_cast<int>(view.tokens.size());
  const float h = 44 * s, gap = 2 * s;
  const int columns = std::clamp(static_cast<int>(room / (34 * s)), 1, std::max(n, 1));
  const float w = std::min(72 * s, room / static_cast<float>(columns));
  for (int i = 0; i < n; ++i) {
    const ImVec2 a(origin.x + static_cast<float>(i % columns) * w,
                   origin.y + static_cast<float>(i / columns) * (h + gap));
    const ImVec2 b(a.x + w - gap, a.y + h);
    list.AddRectFilled(a, b, i < view.filled ? with_alpha(hue(view.hue), 90) : kCellFree, 3 * s);
    text_at(list, a.x + 4 * s, a.y + 2 * s, kDim, std::to_string(i));
    const std::string& token = view.tokens[static_cast<size_t>(i)];
    text_at(list, a.x + 4 * s, a.y + 21 * s, kText, fitting(token, w - 8 * s));
    if (view.marked == i) list.AddRect(a, b, kMark, 3 * s, 0, 2.5f * s);
    if (mouse_in(a, b)) {
      ui.tooltip(fmt::format("block {}, offset {}: slot {} x {} + {} = {}{}", view.block_id, i,
                             view.block_id, n, i, int64_t{view.block_id} * n + i,
                             token.empty() ? "" : "\n\"" + token + "\""));
    }
  }
  const int rows = n == 0 ? 1 : (n + columns - 1) / columns;
  take_room(ui, name, origin, room, static_cast<float>(rows) * (h + gap));
}

void chain(Ui& ui, const std::string& name, const ChainView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float w = 150 * s, h = 62 * s, gap = 24 * s, left = 34 * s;
  const int columns = std::max(1, static_cast<int>((room - left + gap) / (w + gap)));
  const Colour colour = hue(view.sequence.hue);
  list.AddRectFilled(ImVec2(origin.x, origin.y), ImVec2(origin.x + 5 * s, origin.y + h), colour,
                     2 * s);
  text_at(list, origin.x + 11 * s, origin.y + 4 * s, kText, fitting(view.sequence.name, 22 * s));
  for (size_t i = 0; i < view.links.size(); ++i) {
    const ChainView::Link& link = view.links[i];
    const auto column = static_cast<float>(static_cast<int>(i) % columns);
    const auto row = static_cast<float>(static_cast<int>(i) / columns);
    const ImVec2 a(origin.x + left + column * (w + gap), origin.y + row * (h + 10 * s));
    const ImVec2 b(a.x + w, a.y + h);
    if (scrolled_away(list, a.y, h)) continue;
    const bool hit = link.mark == ChainView::Mark::kHit;
    const bool wrong = link.mark == ChainView::Mark::kWrong;
    list.AddRectFilled(a, b,
                       with_alpha(hit     ? hue(2)
                                  : wrong ? kError
                                          : colour,
                                  hit ? 110 : 60),
                       5 * s);
    if (hit || wrong) list.AddRect(a, b, wrong ? kError : hue(2), 5 * s, 0, 2 * s);
    text_at(list, a.x + 8 * s, a.y + 4 * s, kDim,
            fmt::format("block {}{}", link.block_id,
                        hit     ? ", found"
                        : wrong ? ", WRONG"
                                : ""));
    text_at(list, a.x + 8 * s, a.y + 22 * s, kText, fitting(link.text, w - 14 * s));
    text_at(list, a.x + 8 * s, a.y + 40 * s, kDim, fitting(link.hash, w - 14 * s));
    if (i + 1 < view.links.size() && static_cast<int>(i + 1) % columns != 0) {
      const float y = a.y + 48 * s;  // from hash to hash
      list.AddLine(ImVec2(b.x + 2 * s, y), ImVec2(b.x + gap - 4 * s, y), kDim, 1.5f * s);
      list.AddTriangleFilled(ImVec2(b.x + gap - 2 * s, y), ImVec2(b.x + gap - 9 * s, y - 4 * s),
                             ImVec2(b.x + gap - 9 * s, y + 4 * s), kDim);
    }
    if (mouse_in(a, b)) ui.tooltip(link.tooltip);
  }
  const auto n = static_cast<int>(view.links.size());
  const int rows = std::max(1, (n + columns - 1) / columns);
  take_room(ui, name, origin, room, static_cast<float>(rows) * (h + 10 * s));
}

}  // namespace viz
