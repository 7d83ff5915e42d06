#include "viz/drawing/shelves.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/lanes.h"
#include "viz/drawing/text_room.h"

namespace viz {
namespace {

/// The header of a record, or its content, if the record is not whole; else a line between them.
void draw_parts(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  const auto [header, content] = *block.record;
  if (!header && !content) return;
  const float middle = at.middle_y();
  if (block.state == State::kCached) {
    scene.line(id + "/middle", at.x, middle, at.right(), middle, full(block.hue), 1).during(kFills);
    return;
  }
  const auto part = [&](const char* name, float y, State state) {
    Shape& box = scene.box(id + name, {at.x + 2, y, at.w - 4, at.h / 2 - 3}, {});
    dress(box, state, block.hue).during(kFills).radius = 2;
    if (state == State::kEvicted) box.edged(paint(Ink::kError), 1.2f);
  };
  if (header) part("/header", at.y + 2, State::kCached);
  part("/content", middle + 1, header ? State::kEvicted : State::kPreempted);
}

/// A block's name; below it the foot; in the corner, or before the name, its place in the queue.
void draw_words(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  const std::string corner = block.record       ? id.substr(id.rfind(' ')).replace(0, 1, "#")
                             : block.order >= 0 ? fmt::format("{}.", block.order + 1)
                                                : "";
  const std::string name = block.state == State::kFree ? "" : block.name;
  const float large = std::max(15.0f, 0.2f * at.h),
              small = readable(scene.room(), std::clamp(0.16f * at.h, 9.5f, 14.0f));
  const float line = 1.2f * small, wide = text_width(corner, small) + 2;
  const float least = readable(scene.room(), 8);
  const bool has_foot =
      at.h >= 30 && at.w >= 4 + text_width(block.foot, least) && !block.foot.empty();
  const bool above = !block.record && at.h >= (has_foot ? 48 : 36);
  Place room{at.x + 2, at.y + 1, at.w - 4, at.h - 7};
  if (block.record || has_foot) room.h = at.h / 2 - 1;
  const bool beside = wide + 8 + text_width(name, readable(scene.room(), 9)) <= at.w;
  if (at.w >= 26 && at.h >= 28 && !corner.empty() && (above || beside)) {
    const Place place{at.x + 4, above ? at.y + 2 : room.y, wide, above ? line : room.h};
    const Type type{.size = small, .paint = {name.empty() ? Ink::kDim : Ink::kText}};
    scene.label(id + "/order", place, corner, type, 7).during(kFills);
    if (above) {
      const float end = has_foot ? at.bottom() - line - 4 : at.bottom() - 6;
      room = {room.x, at.y + line + 1, room.w, end - at.y - line - 1};
    } else {  // in the middle, if that is free
      const bool fits = text_width(name, large) + 2 * wide + 8 <= at.w;
      room = {room.x + wide + 3, room.y, room.w - (fits ? 2 : 1) * (wide + 3), room.h};
    }
  }
  if (has_foot) {
    const float tall = block.record ? at.h / 2 - 3 : std::max(line, 12.0f);
    const Place place{at.x + 2, at.bottom() - tall - 2, at.w - 4, tall};
    scene
        .label(id + "/foot " + block.foot, place, block.foot,
               {.size = std::max(10.0f, small), .align = Align::kCentre}, 8)
        .during(kFills);
  }
  if (name.empty() || text_width(name, least) > room.w) return;
  const float size = std::min(large, std::max(9.0f, (above ? 0.7f : 0.6f) * room.h));
  scene.label(id + "/name " + name, room, name, {.size = size, .align = Align::kCentre}, 8)
      .during(kFills);
}

void draw_block(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  const bool is_empty =
      block.state == State::kFree || (block.record && block.state == State::kEvicted);
  dress(scene.box(id, at, {}), is_empty ? State::kFree : block.state, is_empty ? -1 : block.hue)
      .tip(id.substr(id.find('/') + 1) + (block.name.empty() ? "" : ": ") + block.name +
           (block.state == State::kReserved ? "\nit is being copied" : "") +
           (block.order < 0
                ? ""
                : fmt::format("\nplace {} of those that are overwritten", block.order + 1)) +
           block.tooltip)
      .during(kFills)
      .radius = std::min(4.0f, at.h / 5);
  if (block.has_copy && at.h >= 12 && at.w >= 12) {
    twin_bar(scene, id + "/copy", at).during(kFills);
  }
  if (block.record) draw_parts(scene, id, block, at);
  if (at.w >= 18 && at.h >= 17) draw_words(scene, id, block, at);
}

void draw_chip(Scene& scene, const Copying& copy, const Place& at, bool is_new) {
  const std::string from = is_new ? copy.from : "";
  const Span when = is_new ? kSetsOut : Span{};
  Shape& box = scene.box(copy.id, at, {});
  dress(box, State::kReserved, copy.hue).comes_from(from, when).radius = std::min(4.0f, at.w / 4);
  box.tip(fmt::format("{} is to be {}", copy.name, copy.down ? "offloaded" : "loaded"));
  if (text_width(copy.name, readable(scene.room(), 8)) > at.w - 3 || at.h < 13) return;
  scene
      .label(copy.id + "/name", at, copy.name,
             {.size = std::min(13.0f, 0.6f * at.h), .align = Align::kCentre}, 8)
      .comes_from(from, when);
}

}  // namespace

std::string shelf_block_id(int shelf, int32_t block) {
  return fmt::format("{}/block {}", shelf, block);
}

void shelf(Scene& scene, int number, const std::string& title, const ShelfBlocks& blocks,
           const Place& at) {
  const std::string id = fmt::format("shelf {}", number);
  const auto count = static_cast<int32_t>(blocks.size()) - 1;
  scene.box(id, at, paint(Ink::kPanel)).radius = 8;
  heading(scene, id + "/name", {at.x + 8, at.y + 3, at.w - 16, kHeading}, title);
  const Place room{at.x + 8, at.y + kHeading + 5, at.w - 16, at.h - kHeading - 12};
  const Grid grid = fit(count, room,
                        {.gap = count > 48 ? 2.0f : 4.0f,
                         .flattest = 0.9f,
                         .widest = 2.4f,
                         .most_w = 300,
                         .most_h = 150,
                         .round_to = 4});
  for (int32_t block = 1; block <= count; ++block) {
    draw_block(scene, shelf_block_id(number, block), blocks[static_cast<size_t>(block)],
               grid.cell(block - 1));
  }
}

void arrow(Scene& scene, const std::string& id, const Place& at, bool down, bool moves,
           const std::string& name) {
  const float top = at.y + 2, bottom = at.bottom() - 2;
  const Paint ink = paint(moves ? Ink::kText : Ink::kDim);
  scene.line(id, at.x, down ? top : bottom, at.x, down ? bottom : top, ink, moves ? 3.0f : 2.0f)
      .pointing();
  scene.label(id + "/name", {at.x + 8, at.y, at.w - 8, at.h}, name, {.size = 12, .paint = ink});
}

void copies(Scene& scene, std::span<const Copying> before, std::span<const Copying> now,
            const Place& at) {
  for (const bool down : {true, false}) {
    const std::string id = down ? "link/offload" : "link/load";
    const Place half{down ? at.x : at.middle_x(), at.y, at.w / 2, at.h};
    const auto count = std::ranges::count(now, down, &Copying::down);
    const bool moves = count > 0 || std::ranges::count(before, down, &Copying::down) > 0;
    arrow(scene, id, {half.x + 14, half.y, 54, half.h}, down, moves, down ? "offload" : "load");
    const float left = half.x + 72, room = half.right() - left - 6;
    const float wide = std::min(44.0f, room / static_cast<float>(std::max<int64_t>(count, 1)));
    Place chip{left, half.y + 1, wide - 3, half.h - 2};
    for (const Copying& copy : now) {
      if (copy.down != down) continue;
      draw_chip(scene, copy, chip, std::ranges::count(before, copy.id, &Copying::id) == 0);
      chip.x += wide;
    }
  }
  for (const Copying& copy : before) {
    const Shape* const home = scene.find(copy.to);
    if (home == nullptr || std::ranges::count(now, copy.id, &Copying::id) > 0) continue;
    for (const char* part : {"", "/name"}) scene.leaves(copy.id + part, home->at, kLands);
  }
}

}  // namespace viz
