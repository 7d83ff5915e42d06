// The table of marks: what each state looks like on all pages, and the legend that names them.

#include <fmt/format.h>

#include "viz/drawing/parts.h"
#include "viz/drawing/text_room.h"

namespace viz {

Shape& dress(Shape& box, State state, int hue) {
  const Paint own = hue >= 0 ? soft(hue) : paint(Ink::kCell);
  const Paint rim = hue >= 0 ? full(hue) : paint(Ink::kLine);
  box.fill = own;
  box.edged(rim, 1.2f);
  switch (state) {
    case State::kFree:
      box.fill = paint(Ink::kNone);
      return box.dashed_edge();
    case State::kReserved:
      if (hue >= 0) box.dashed_edge();
      return box.patterned(Pattern::kHatched);
    case State::kPrompt:
    case State::kSliding:
      return box.patterned(Pattern::kLined);
    case State::kCached:
      if (hue < 0) box.edged(paint(Ink::kDim), 1.2f);
      return box.patterned(Pattern::kDotted);
    case State::kFound:
      return box.edged(paint(Ink::kText), 2.5f);
    case State::kPreempted:
      return box.patterned(Pattern::kCrossed).dashed_edge();
    case State::kEvicted:
      box.fill = paint(Ink::kNone);
      return box.edged(paint(Ink::kDim), 1.2f).patterned(Pattern::kCrossed);
    default:
      return box;
  }
}

std::string glyph(State state) {
  return state == State::kFound ? "\u2713 " : state == State::kEvicted ? "\u2717 " : "";
}

Shape& twin_bar(Scene& scene, std::string id, const Place& box) {
  const Place bar{box.x + 3, box.bottom() - 5, box.w - 6, 3};
  Shape& shape = scene.box(std::move(id), bar, paint(Ink::kText));
  shape.radius = 1;
  return shape;
}

/// Whether the scene has a box that looks as the entry says, or had one on the way to it.
bool is_drawn(const Scene& scene, const LegendEntry& entry) {
  Shape sample;
  dress(sample, entry.state, 0);
  const auto looks_so = [&](const Shape& one) {
    if (one.kind != Shape::Kind::kBox || one.over || one.only_lit) return false;
    if (entry.has_twin) return one.fill == paint(Ink::kText) && one.at.h <= 3;
    if (entry.edge != Ink::kNone) return one.edge.ink == entry.edge;
    if (one.pattern != sample.pattern) return false;
    const bool same_edge =
        one.edge.ink == sample.edge.ink && one.edge.strength == sample.edge.strength;
    const bool plain = sample.pattern == Pattern::kPlain && !sample.dashed;
    if ((entry.hue >= 0 || (plain && entry.hue != kNoHue)) && !same_edge) return false;
    return sample.pattern == Pattern::kHatched || one.dashed == sample.dashed;
  };
  return std::ranges::any_of(scene.shapes(), looks_so) ||
         std::ranges::any_of(scene.ghosts(), looks_so, &Scene::Ghost::shape);
}

void legend(Scene& scene, const Place& at, const std::vector<LegendEntry>& entries) {
  const float line = at.h < 44 ? at.h : 22.0f, apart = is_in_text(scene.room()) ? 10 : 16,
              size = roomy(scene.room(), 12);
  float x = at.x, y = at.y;
  const auto drawn = [&](const LegendEntry& entry) { return is_drawn(scene, entry); };
  const bool is_empty = std::ranges::none_of(entries, drawn);  // it says what will come
  int count = 0;
  for (size_t i = 0; i < entries.size() && count < kMostSamples; ++i) {
    if (!is_empty && !drawn(entries[i])) continue;
    ++count;
    const std::string id = fmt::format("legend/{}", i);
    const float w = text_width(entries[i].name, size) + 2;
    if (x + 26 + w > at.right() && y + 2 * line <= at.bottom()) {
      x = at.x;
      y += line;
    }
    const Place sample{x, y + line / 2 - 7, 20, 14};
    const State state = entries[i].state;
    const bool has_hue = entries[i].hue != kNoHue && state != State::kFree &&
                         state != State::kReserved && state != State::kEvicted;
    const int hue = entries[i].hue >= 0 ? entries[i].hue : has_hue ? 0 : -1;
    Shape& box = dress(scene.box(id, sample, {}), state, hue);
    if (hue < 0) box.edged(paint(Ink::kDim), 1.2f);  // a lone sample must be seen
    if (state == State::kDecode) box.fill = full(hue);
    if (entries[i].edge != Ink::kNone) box.edged(paint(entries[i].edge), 2).dashed = false;
    box.radius = 3;
    if (entries[i].has_twin) twin_bar(scene, id + "/twin", sample);
    scene.label(id + "/name", {x + 26, y, w, line}, entries[i].name,
                {.size = size, .paint = {Ink::kDim}});
    x += 26 + w + apart;
  }
}

}  // namespace viz
