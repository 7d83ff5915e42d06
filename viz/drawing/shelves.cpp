#include "viz/drawing/shelves.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/lanes.h"
#include "viz/drawing/text_room.h"

namespace viz {
namespace {

/// Of a record that is not whole.
bool is_torn(const ShelfBlock& block) {
  return block.record && block.state != State::kCached &&
         (block.record->header || block.record->content);
}

/// The header of a torn record, or its content.
void draw_parts(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  const auto part = [&](const char* name, float y, State state) {
    Shape& box = scene.box(id + name, {at.x + 2, y, at.w - 4, at.h / 2 - 3}, {});
    dress(box, state, block.hue).during(kFills).radius = 2;
    if (state == State::kEvicted) box.edged(paint(Ink::kError), 1.2f);
  };
  const bool header = block.record->header;
  if (header) part("/header", at.y + 2, State::kCached);
  part("/content", at.middle_y() + 1, header ? State::kEvicted : State::kPreempted);
}

/// A block's name, after the number of a torn record; below it the foot.
void draw_words(Scene& scene, const std::string& id, const ShelfBlock& block, const Place& at) {
  const float large = std::clamp(0.28f * at.h, 15.0f, kLargest), least = readable(scene.room(), 8);
  const float foot = readable(scene.room(), std::clamp(0.16f * at.h, 10.0f, 14.0f));
  const bool has_foot =
      at.h >= 30 && at.w >= 4 + text_width(block.foot, least) && !block.foot.empty();
  Place room = at.inset(2);
  if (is_torn(block) || has_foot) room.h = at.h / 2 - 2;
  if (is_torn(block)) {
    const std::string number = "#" + id.substr(id.rfind(' ') + 1);
    const Place place{room.x + 2, room.y, text_width(number, foot) + 2, room.h};
    scene.label(id + "/number", place, number, {.size = foot}, 7).during(kFills);
    room = {place.right(), room.y, room.right() - place.right(), room.h};
  }
  if (has_foot) {
    const Place place{at.x + 2, at.middle_y(), at.w - 4, at.h / 2 - 2};
    scene
        .label(id + "/foot " + block.foot, place, block.foot,
               {.size = foot, .align = Align::kCentre}, 8)
        .during(kFills);
  }
  const std::string name = block.state == State::kFree ? "" : block.name;
  if (name.empty() || text_width(name, least) > room.w) return;
  const float size = std::min(large, std::max(9.0f, 0.7f * room.h));
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
  if (is_torn(block)) draw_parts(scene, id, block, at);
  if (at.w >= 18 && at.h >= 17) draw_words(scene, id, block, at);
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
                         .widest = is_in_text(scene.room()) ? 2.4f : 3,
                         .most_w = 300,
                         .most_h = 190,
                         .round_to = 4});
  for (int32_t block = 1; block <= count; ++block) {
    draw_block(scene, shelf_block_id(number, block), blocks[static_cast<size_t>(block)],
               grid.cell(block - 1));
  }
}

void arrow(Scene& scene, const std::string& id, const Place& at, bool down,
           const std::string& name) {
  const float top = at.y + 2, bottom = at.bottom() - 2;
  scene.line(id, at.x, down ? top : bottom, at.x, down ? bottom : top, paint(Ink::kText), 3)
      .pointing();
  scene.label(id + "/name", {at.x + 8, at.y, at.w - 8, at.h}, name, {.size = 12});
}

void saved(Scene& scene, const std::string& id, const Place& at, int64_t before, int64_t now) {
  if (now == 0) return;
  const float size = std::clamp(0.7f * at.h, 18.0f, 32.0f), wide = text_width("0000", size);
  count_up(scene, id, {at.x, at.y, wide, at.h}, before, now, {.size = size, .align = Align::kRight},
           kFills);
  scene.label(id + "/name", {at.x + wide + 10, at.y, at.w - wide - 10, at.h},
              "tokens " + id + (is_narrow(scene.room()) ? "" : ", and not computed again"),
              {.size = 12, .paint = {Ink::kDim}});
}

float shelf_head(Scene& scene, const std::vector<Chip>& all, float h, int64_t was, int64_t now) {
  const bool narrow = is_narrow(scene.room());
  const float w = scene.room().w, number = narrow ? w : 300;
  chips(scene, "request", {0, 0, narrow ? w : w - number, h}, all);
  saved(scene, "found", {w - number, narrow ? h : 0, number, 30}, was, now);
  return narrow ? h + 30 : h;
}

void shelf_note(Scene& scene, const Place& at, const std::string& words, const std::string& about) {
  const Shape* const block = scene.find(about);
  if (block != nullptr && block->edge.ink != Ink::kError) {
    const Place ring = block->at.inset(-2);
    scene.box("note/ring", ring, {}).edged(paint(Ink::kMark), 2.5f).on_top();
  }
  if (!scene.room().is_told && !words.empty()) note(scene, "note", at, words);
}

void let_come(Scene& scene, const std::string& from, const std::string& box,
              const std::string& name, Span when) {
  const Shape *const source = scene.find(from), *const own = scene.find(box);
  if (source == nullptr || own == nullptr) return;
  const float w = std::min(source->at.w, own->at.w), h = std::min(source->at.h, own->at.h);
  const auto amid = [&](const Place& at) {
    return Place{at.middle_x() - w / 2, at.middle_y() - h / 2, w, h};
  };
  const auto send = [&, from = amid(source->at), to = amid(own->at)](Shape shape, const char* id) {
    shape.id = box + id;
    shape.at = from;
    scene.ghost(shape, to, when);
  };
  Shape ground = *own;  // what it passes does not shine through
  ground.pattern = Pattern::kPlain;
  ground.fill = paint(Ink::kPanel);
  send(ground, "/ground");
  send(*own, "/comes");
  if (const Shape* const words = scene.find(name)) send(*words, "/words");
  for (Shape& shape : scene.since(0)) {
    const bool is_part = shape.id == box || shape.id.starts_with(box + "/");
    if (is_part) shape.during({when.end - 0.02f, when.end});
  }
}

}  // namespace viz
