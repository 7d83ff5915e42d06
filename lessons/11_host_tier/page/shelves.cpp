#include "picture.h"

namespace lesson11 {
namespace {

std::string cell_id(int shelf, int32_t id) { return fmt::format("{}/block {}", shelf, id); }

std::string chip_id(const Moving& moving) {
  return fmt::format("move {}.{}", moving.job, moving.blocks.host);
}

/// The cell that a move is from, or to.
std::string end_of(const Moving& moving, bool to) {
  const bool on_device = (moving.way == Way::kLoad) == to;
  return on_device ? cell_id(0, moving.blocks.device) : cell_id(1, moving.blocks.host);
}

bool same_move(const Moving& a, const Moving& b) { return chip_id(a) == chip_id(b); }

}  // namespace

/// The block that a cell's content came from, if it was moved at once: on which other shelf it was.
/// -1: it was not.
int Picture::changed_from(int shelf, int32_t id) const {
  if (!now_.has_passed || before_.shelves.size() != now_.shelves.size()) return -1;
  const Shelf &is = now_.shelves[static_cast<size_t>(shelf)],
              &was = before_.shelves[static_cast<size_t>(shelf)];
  const Cell& cell = is.at(id);
  if (was.cells.size() != is.cells.size() || !cell.cached || cell.name.empty()) return -1;
  if (was.at(id).cached && was.at(id).name == cell.name) return -1;
  if (now_.traffic.empty()) return -1;
  const Traffic& copied = now_.traffic.back();
  if ((shelf == 1 ? copied.offloaded : copied.loaded) == 0) return -1;
  const std::vector<Cell>& cells = before_.shelves[static_cast<size_t>(1 - shelf)].cells;
  const bool found = std::ranges::any_of(
      cells, [&](const Cell& one) { return one.cached && one.name == cell.name; });
  return found ? 1 - shelf : -1;
}

void Picture::draw_shelf(int shelf) {
  const Shelf& of = now_.shelves[static_cast<size_t>(shelf)];
  const Place& at = areas_.shelves[static_cast<size_t>(shelf)];
  const auto count = static_cast<int>(of.cells.size()) - 1;
  const auto known = std::ranges::count(of.cells, true, &Cell::cached);
  scene_.box(fmt::format("shelf {}", shelf), at, paint(Ink::kPanel)).radius = 8;
  const char* const names[] = {"the device", "the host's memory"};
  viz::heading(
      scene_, fmt::format("shelf {}/name", shelf), {at.x + 8, at.y + 3, at.w - 16, kHeading},
      fmt::format("{}: {}, {} can be found", names[shelf], kv::count_of(count, "block"), known));
  const Place room{at.x + 8, at.y + kHeading + 5, at.w - 16, at.h - kHeading - 12};
  const viz::Grid grid = viz::fit(count, room,
                                  {.gap = count > 48 ? 2.0f : 4.0f,
                                   .flattest = 0.9f,
                                   .widest = 2.4f,
                                   .most_w = 110,
                                   .most_h = 60,
                                   .round_to = 4});
  for (int32_t id = 1; id <= count; ++id) cell(shelf, id, grid.cell(id - 1));
}

void Picture::cell(int shelf, int32_t id, const Place& at) {
  const Cell& of = now_.shelves[static_cast<size_t>(shelf)].at(id);
  const std::string name = cell_id(shelf, id);
  const bool moves = std::ranges::any_of(
      now_.moving, [&](const Moving& one) { return end_of(one, true) == name; });
  const State state = moves       ? State::kReserved
                      : of.used   ? State::kInUse
                      : of.cached ? State::kCached
                                  : State::kFree;
  viz::Shape& box = scene_.box(name, at, {});
  dress(box, state, state == State::kFree ? -1 : of.hue).during(kFills).radius =
      std::min(4.0f, at.h / 5);
  std::string tip = fmt::format("block {}{}{}", id, of.name.empty() ? "" : ": ", of.name);
  if (moves) tip += "\nit is being copied";
  if (of.has_copy) tip += "\nthe host has a copy: evicted, it is not lost";
  if (of.order >= 0) tip += fmt::format("\nplace {} of those that are overwritten", of.order + 1);
  box.tip(tip);
  if (of.has_copy && at.h >= 12 && at.w >= 12) {
    scene_.box(name + "/copy", {at.x + 3, at.bottom() - 5, at.w - 6, 3}, paint(Ink::kText))
        .during(kFills)
        .radius = 1;
  }
  if (at.w < 18 || at.h < 17) return;
  const bool ordered = at.h >= 32 && at.w >= 26 && of.order >= 0;
  if (ordered) {
    scene_
        .label(name + "/order", {at.x + 4, at.y + 2, at.w - 8, 11},
               fmt::format("{}.", of.order + 1),
               {.size = 9.5f, .paint = {of.cached ? Ink::kText : Ink::kDim}}, 7)
        .during(kFills);
  }
  if (of.name.empty() || (!of.used && !of.cached) || viz::text_width(of.name, 8) > at.w - 4) {
    return;
  }
  const float top = ordered ? 11.0f : 1.0f;
  scene_
      .label(fmt::format("{}/name {}", name, of.name),
             {at.x + 2, at.y + top, at.w - 4, at.h - top - 6}, of.name,
             {.size = std::clamp(0.4f * at.h, 9.0f, 15.0f), .align = Align::kCentre}, 8)
      .during(kFills);
}

/// Blocks that are to be copied: those that are offloaded on the left, those that are loaded on the
/// right.
void Picture::draw_link() {
  const Place& at = areas_.link;
  for (const Way way : {Way::kOffload, Way::kLoad}) {
    const bool down = way == Way::kOffload;
    const Place half{at.x + (down ? 0 : at.w / 2), at.y, at.w / 2, at.h};
    const std::string side = down ? "link/offload" : "link/load";
    const float x = half.x + 14, pad = 2;
    scene_
        .line(side, x, down ? half.y + pad : half.bottom() - pad, x,
              down ? half.bottom() - pad : half.y + pad, paint(Ink::kDim), 2)
        .pointing();
    scene_.label(side + "/name", {x + 8, half.y, 46, half.h}, down ? "offload" : "load",
                 {.size = 12, .paint = {Ink::kDim}});
    std::vector<const Moving*> all;
    for (const Moving& one : now_.moving) {
      if (one.way == way) all.push_back(&one);
    }
    const float left = x + 58, room = half.right() - left - 6;
    const float wide = std::min(44.0f, room / static_cast<float>(std::max<size_t>(all.size(), 1)));
    for (size_t i = 0; i < all.size(); ++i) {
      chip(*all[i], {left + wide * static_cast<float>(i), half.y + 1, wide - 3, half.h - 2});
    }
  }
  for (const Moving& old : before_.moving) {
    const bool landed =
        std::ranges::none_of(now_.moving, [&](const Moving& one) { return same_move(one, old); });
    if (landed) land(old);
  }
}

void Picture::chip(const Moving& moving, const Place& at) {
  const std::string id = chip_id(moving);
  const bool fresh = std::ranges::none_of(
      before_.moving, [&](const Moving& one) { return same_move(one, moving); });
  viz::Shape& box = scene_.box(id, at, {});
  dress(box, State::kReserved, moving.hue).radius = std::min(4.0f, at.w / 4);
  box.tip(fmt::format("{} is to be {}", moving.name,
                      moving.way == Way::kOffload ? "offloaded" : "loaded"));
  const std::string source = end_of(moving, false);
  if (fresh) box.comes_from(source, kBegins);
  if (viz::text_width(moving.name, 8) > at.w - 3 || at.h < 13) return;
  viz::Shape& text =
      scene_.label(id + "/name", at, moving.name,
                   {.size = std::min(13.0f, 0.6f * at.h), .align = Align::kCentre}, 8);
  if (fresh) text.comes_from(source, kBegins);
}

void Picture::land(const Moving& moving) {
  const viz::Shape* const home = scene_.find(end_of(moving, true));
  if (home == nullptr) return;
  for (const char* part : {"", "/name"}) scene_.leaves(chip_id(moving) + part, home->at, kLands);
}

/// What was moved at once.
void Picture::draw_ghosts() {
  for (int shelf = 0; shelf < std::ssize(now_.shelves); ++shelf) {
    const auto count = static_cast<int32_t>(now_.shelves[static_cast<size_t>(shelf)].cells.size());
    for (int32_t id = 1; id < count; ++id) {
      const int from = changed_from(shelf, id);
      const bool seen = std::ranges::any_of(before_.moving, [&](const Moving& one) {
        return end_of(one, true) == cell_id(shelf, id);
      });
      if (from >= 0 && !seen) ghost(from, shelf, id);
    }
  }
}

void Picture::ghost(int from, int to, int32_t id) {
  const Cell& cell = now_.shelves[static_cast<size_t>(to)].at(id);
  const std::vector<Cell>& cells = before_.shelves[static_cast<size_t>(from)].cells;
  const auto source = std::ranges::find_if(
      cells, [&](const Cell& one) { return one.cached && one.name == cell.name; });
  const viz::Shape* const begin =
      scene_.find(cell_id(from, static_cast<int32_t>(source - cells.begin())));
  const viz::Shape* const end = scene_.find(cell_id(to, id));
  if (begin == nullptr || end == nullptr) return;
  viz::Shape travels{.id = fmt::format("ghost {}/{}", to, id), .at = begin->at};
  dress(travels, State::kReserved, cell.hue);
  scene_.ghost(travels, end->at, kLands);
}

}  // namespace lesson11
