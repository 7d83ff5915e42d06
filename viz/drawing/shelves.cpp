#include "viz/drawing/shelves.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/lanes.h"

namespace viz {
namespace {

void draw_block(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  dress(scene.box(id, at, {}), block.state, block.state == State::kFree ? -1 : block.hue)
      .tip(id.substr(id.find('/') + 1) + (block.name.empty() ? "" : ": ") + block.name +
           (block.state == State::kReserved ? "\nit is being copied" : "") +
           (block.order < 0
                ? ""
                : fmt::format("\nplace {} of those that are overwritten", block.order + 1)) +
           block.tooltip)
      .during(kFills)
      .radius = std::min(4.0f, at.h / 5);
  if (block.has_copy && at.h >= 12 && at.w >= 12) {
    const Place bar{at.x + 3, at.bottom() - 5, at.w - 6, 3};
    scene.box(id + "/copy", bar, paint(Ink::kText)).during(kFills).radius = 1;
  }
  if (at.w < 18 || at.h < 17) return;
  const bool ordered = at.h >= 32 && at.w >= 26 && block.order >= 0;
  if (ordered) {
    scene
        .label(id + "/order", {at.x + 4, at.y + 2, at.w - 8, 11},
               fmt::format("{}.", block.order + 1),
               {.size = 9.5f, .paint = {block.cached ? Ink::kText : Ink::kDim}}, 7)
        .during(kFills);
  }
  if (block.state == State::kFree || text_width(block.name, 8) > at.w - 4) return;
  const float top = ordered ? 11.0f : 1.0f;
  scene
      .label(id + "/name " + block.name, {at.x + 2, at.y + top, at.w - 4, at.h - top - 6},
             block.name, {.size = std::clamp(0.4f * at.h, 9.0f, 15.0f), .align = Align::kCentre}, 8)
      .during(kFills);
}

void draw_chip(Scene& scene, const Copying& copy, const Place& at, bool is_new) {
  const std::string from = is_new ? copy.from : "";
  const Span when = is_new ? kSetsOut : Span{};
  Shape& box = scene.box(copy.id, at, {});
  dress(box, State::kReserved, copy.hue).comes_from(from, when).radius = std::min(4.0f, at.w / 4);
  box.tip(fmt::format("{} is to be {}", copy.name, copy.down ? "offloaded" : "loaded"));
  if (text_width(copy.name, 8) > at.w - 3 || at.h < 13) return;
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
                         .most_w = 110,
                         .most_h = 60,
                         .round_to = 4});
  for (int32_t block = 1; block <= count; ++block) {
    draw_block(scene, shelf_block_id(number, block), blocks[static_cast<size_t>(block)],
               grid.cell(block - 1));
  }
}

void copies(Scene& scene, std::span<const Copying> before, std::span<const Copying> now,
            const Place& at) {
  for (const bool down : {true, false}) {
    const std::string id = down ? "link/offload" : "link/load";
    const Place half{down ? at.x : at.middle_x(), at.y, at.w / 2, at.h};
    const float x = half.x + 14, top = half.y + 2, bottom = half.bottom() - 2;
    scene.line(id, x, down ? top : bottom, x, down ? bottom : top, paint(Ink::kDim), 2).pointing();
    scene.label(id + "/name", {x + 8, half.y, 46, half.h}, down ? "offload" : "load",
                {.size = 12, .paint = {Ink::kDim}});
    const auto count = std::ranges::count(now, down, &Copying::down);
    const float left = x + 58, room = half.right() - left - 6;
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
