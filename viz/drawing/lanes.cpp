#include "viz/drawing/lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

/// Whether a line from below can reach the shape without crossing a box.
bool is_reachable(const Scene& scene, const Shape& target, float from) {
  const float x = target.at.middle_x();
  return std::ranges::none_of(scene.shapes(), [&](const Shape& shape) {
    return shape.kind == Shape::Kind::kBox && shape.at.y > target.at.bottom() &&
           shape.at.bottom() < from && shape.at.x <= x && x <= shape.at.right();
  });
}

/// Of a block's number, beside its slots.
float number_width(float h) { return std::clamp(0.5f * h, 17.0f, 24.0f); }

}  // namespace

void reason(Scene& scene, const Place& line, const std::string& words, const std::string& about,
            Span when) {
  if (words.empty()) return;
  const Shape* const target = scene.find(about);
  const bool points = target != nullptr && is_reachable(scene, *target, line.y);
  const float wide = text_width(words, roomy(scene.room(), 13)) + 20;
  const float middle = target != nullptr ? target->at.middle_x() : 0;
  const float x = std::max(0.0f, std::min(middle - wide / 2, line.w - wide));
  note(scene, "note", {x, line.y, line.w - x, line.h}, words, points ? about : "", Ink::kMark,
       when);
}

void ribbon(Scene& scene, const SequenceView& request, const Place& at, bool is_selected,
            const std::string& words) {
  const std::string id = "request " + request.name;
  Shape& box = scene.box(id, at, soft(request.hue), full(request.hue));
  box.selecting(request.name).tip(id + ": a click selects it").radius = 4;
  if (is_selected) box.edged(paint(Ink::kText), 2.5f);
  scene.label(id + "/name", {at.x + 6, at.y, at.w - 12, at.h}, words,
              {.size = std::min(13.0f, 0.8f * at.h)}, 7);
}

Place request_card(Scene& scene, const SequenceView& request, const Place& at, State state,
                   bool is_selected, const std::string& doing, const std::string& tooltip,
                   Span when) {
  const std::string id = "request " + request.name;
  Shape& box = scene.box(id, at, {});
  dress(box, state, request.hue).during(when).fill = {Ink::kHue, request.hue, 0.03f};
  if (box.pattern == Pattern::kDotted) box.patterned(Pattern::kPlain);  // words stand on it
  if (is_selected) box.edged(paint(Ink::kText), 2.5f);
  box.selecting(request.name).tip(fmt::format("{} {}\n{}", request.name, doing, tooltip));
  const Place inside = at.inset(std::clamp(0.06f * at.h, 3.0f, 7.0f));
  const float size = readable(scene.room(), std::clamp(0.12f * at.h, 11.0f, 17.0f));
  const float line = std::min(1.35f * size, inside.h);
  const float name = std::min(text_width(request.name, size) + 8, inside.w);
  scene.label(id + "/name", {inside.x, inside.y, name, line}, request.name, {.size = size}, 5)
      .during(when);
  if (text_width(doing, readable(scene.room(), 8)) <= inside.w - name) {
    scene
        .label(id + "/doing", {inside.x + name, inside.y, inside.w - name, line}, doing,
               {.size = size, .align = Align::kRight}, 8)
        .during(when);
  }
  return {inside.x, inside.y + line + 3, inside.w, inside.h - line - 3};
}

void numbered_block(Scene& scene, const NumberedBlock& block, const Place& at, Span when) {
  const std::string name = fmt::format("block {}", block.id);
  const bool is_shared = block.hues.size() > 1;
  Shape& box = scene.box(name, at, {});
  dress(box, block.state, block.hues.size() == 1 ? block.hues[0] : -1);
  if (is_shared) {
    box.patterned(Pattern::kPlain).edged(paint(Ink::kText), 1.2f).fill = paint(Ink::kPanel);
  }
  box.tip(name + block.tooltip).during(when).radius = std::min(4.0f, at.h / 5);
  const float part = (at.w - 2) / static_cast<float>(std::max<size_t>(block.hues.size(), 1));
  for (size_t i = 0; i < block.hues.size() && is_shared; ++i) {
    const Place band{at.x + 1 + part * static_cast<float>(i), at.y + 1, part - 0.5f, at.h - 2};
    Shape& its = scene.box(fmt::format("{}/hue {}", name, block.hues[i]), band, {});
    dress(its, block.state, block.hues[i]).edged({}).during(when).radius = 0;
  }
  const std::string digits = std::to_string(block.id);
  if (at.w < 14 || at.h < 11 || text_width(digits, readable(scene.room(), 6)) > at.w) return;
  const bool has_badge =
      at.h >= 3 * readable(scene.room(), 10) && at.w >= 44 && !block.badge.empty();
  const Place number{at.x, at.y + (has_badge ? 2 : 0), at.w, has_badge ? at.h / 2 : at.h};
  const Place badge{at.x + 2, at.middle_y(), at.w - 4, at.h / 2 - 2};
  if (block.state == State::kCached && block.hues.empty()) {  // no dots behind the words
    const auto plate = [&](const char* its, const Place& words, float wide) {
      const float w = std::min(wide + 6, at.w - 3), h = std::min(16.0f, words.h - 1);
      const Place under{at.middle_x() - w / 2, words.middle_y() - h / 2, w, h};
      scene.box(name + its, under, paint(Ink::kCell)).during(when).radius = 2;
    };
    plate("/plate", number, text_width(digits, 13));
    if (has_badge) {
      plate("/badge/plate", badge, text_width(block.badge, readable(scene.room(), 10)));
    }
  }
  scene
      .label(name + "/id", number, digits,
             {.size = std::min(13.0f, 0.6f * at.h),
              .paint = paint(block.state == State::kFree ? Ink::kDim : Ink::kText),
              .align = Align::kCentre},
             6)
      .during(when);
  if (!has_badge) return;
  scene.label(name + "/badge", badge, block.badge, {.size = 10, .align = Align::kCentre}, 7)
      .during(when);
}

void words(Scene& scene, const std::string& id, const Place& at, std::span<const int32_t> tokens,
           const std::function<std::string(int32_t)>& word_of, int hue, float size) {
  std::vector<Chip> all;
  for (const int32_t token : tokens) all.push_back({.text = word_of(token), .hue = hue});
  chips(scene, id, at, all, size);
}

void bar(Scene& scene, const Bar& bar, const Place& at, int64_t longest, Span when) {
  if (!bar.name.empty()) {
    scene.label(bar.id + "/name", {at.x, at.y, bar.name_width - 2, at.h}, bar.name, {.size = 13},
                7);
  }
  const float each =
      (at.w - bar.name_width - bar.total_width) / static_cast<float>(std::max<int64_t>(longest, 1));
  float x = at.x + bar.name_width;
  for (const Bar::Part& part : bar.parts) {
    if (part.size == 0) continue;
    const float w = each * static_cast<float>(part.size);
    const Place place{x, at.y, std::max(w - 2, 1.0f), at.h};
    Shape& box = dress(scene.box(part.id, place, {}), part.state, part.hue);
    box.tip(part.tooltip).during(when).radius = 2;
    if (w < 6) box.pattern = Pattern::kPlain;  // too narrow for lines
    x += w;
    if (part.text.empty() || text_width(part.text, readable(scene.room(), 9)) > place.w - 3)
      continue;
    scene.label(part.id + "/text", place, part.text, {.size = 11, .align = Align::kCentre})
        .during(when);
  }
  if (bar.total.empty()) return;
  const Place total{at.right() - bar.total_width, at.y, bar.total_width, at.h};
  scene.label(bar.id + "/total", total, bar.total, {.size = 13, .align = Align::kRight})
      .during(when);
}

Place WordBlocks::block(int index, const Place& corner) const {
  const auto column = static_cast<float>(index % columns),
             row = static_cast<float>(index / columns);
  return {corner.x + column * (w + kGap), corner.y + row * (h + kGap), w, h};
}

Place WordBlocks::slot_of(int position, const Place& corner) const {
  const Place at = block(position / block_size, corner);
  const float x = at.x + number_width(h) + slot * static_cast<float>(position % block_size);
  return {x, at.y + kPad, slot - 2, at.h - 2 * kPad};
}

void WordBlocks::draw(Scene& scene, int32_t id, const Place& at, int hue,
                      const std::string& tooltip, Span when) const {
  const std::string name = fmt::format("block {}", id);
  scene.box(name, at, paint(Ink::kPanel), full(hue)).tip(tooltip).during(when).radius = 4;
  if (h < 14) return;
  scene
      .label(name + "/id", {at.x, at.y, number_width(h), at.h}, std::to_string(id),
             {.size = std::clamp(0.4f * h, 8.0f, 13.0f), .align = Align::kCentre}, 6)
      .during(when);
}

Shape* WordBlocks::draw_slot(Scene& scene, const std::string& id, const Place& at,
                             std::optional<State> state, int hue, const std::string& word,
                             Span when) const {
  Shape& box = scene.box(id, at, paint(Ink::kCell), paint(Ink::kLine, 0.6f));
  box.thickness = 1;
  if (state == State::kInUse) {
    box.fill = soft(hue);
  } else if (state) {
    dress(box, *state, hue);
  }
  box.during(when).tip(word).radius = 2;
  const float least = readable(scene.room(), kLeastWord);
  if (word.empty() || at.h < 9 || text_width(word, least) > at.w - 3) return nullptr;
  const bool known = state != State::kFree && state != State::kEvicted;
  Shape& text = scene.label(id + "/token", at.inset(1), word,
                            {.size = std::clamp(0.2f * at.h, std::min(14.0f, 0.62f * at.h), 20.0f),
                             .paint = paint(known ? Ink::kText : Ink::kDim),
                             .align = Align::kCentre},
                            kLeastWord);
  text.during(when).struck = state == State::kEvicted;
  return &text;
}

WordBlocks fit_words(const Place& room, int block_size, float heads,
                     const std::function<int(int columns)>& rows_in) {
  WordBlocks best;
  float best_size = -1;
  for (int columns = 1; columns <= 8; ++columns) {
    const auto c = static_cast<float>(columns), rows = static_cast<float>(rows_in(columns));
    WordBlocks blocks{.block_size = block_size, .columns = columns};
    blocks.h = std::min((room.h - heads) / std::max(rows, 2.0f) - WordBlocks::kGap,
                        std::max(64.0f, 0.15f * room.h));
    if (blocks.h < 2 * WordBlocks::kPad + 1) continue;
    const float most = (room.w - WordBlocks::kGap * (c - 1)) / c;
    const float beside = number_width(blocks.h) + WordBlocks::kPad;
    blocks.slot = std::min((most - beside) / static_cast<float>(block_size), 3 * blocks.h);
    if (blocks.slot < 3) continue;
    blocks.w = beside + blocks.slot * static_cast<float>(block_size);
    const float size = std::min(blocks.slot / 58, blocks.h / 28);  // a word is wide
    if (size <= best_size) continue;
    best_size = size;
    best = blocks;
  }
  return best;
}

}  // namespace viz
