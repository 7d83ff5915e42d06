#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "page.h"
#include "viz/drawing/lanes.h"
#include "viz/drawing/progress.h"

namespace lesson11 {
namespace {

using viz::kFills;
using viz::kHeading;
using viz::Place;
using viz::State;

/// A request's state, in words.
std::string word_of(const Asked& asked) {
  if (asked.id < 0) return "to come";
  if (asked.ended) return "has ended";
  if (asked.doing == State::kReserved) return "waits for its blocks";
  if (asked.doing == State::kPrompt) return "runs: prompt";
  if (asked.doing == State::kDecode) return "runs: decodes";
  return asked.doing == State::kPreempted ? "preempted" : "waits";
}

/// Draws a request: its name, its state, and in which passes it ran or waited for its blocks.
void draw_card(viz::Scene& scene, const Asked& asked, const Place& at, bool is_selected) {
  const bool waits = !asked.is_there() || !asked.doing || asked.doing == State::kFree;
  const State state = waits                              ? State::kFree
                      : asked.doing == State::kPreempted ? State::kPreempted
                                                         : State::kInUse;
  const Place room = viz::request_card(scene, asked, at, state, is_selected, word_of(asked),
                                       viz::described(asked));
  viz::PassMarks marks = asked.marks;
  for (std::optional<State>& mark : marks) {
    if (runs(mark)) mark = State::kInUse;
  }
  const float tall = std::min(room.h, 14.0f);
  viz::pass_row(scene, asked, marks, viz::pass_columns(room, marks.size(), 16, 64),
                room.bottom() - tall, tall, kFills);
}

/// An arrow for each way that blocks are on, or came with the last command.
void draw_link(viz::Scene& scene, const Shown& before, const Shown& now, const Place& at) {
  for (const bool down : {true, false}) {
    const auto moves = [&](const Shown& shown) {
      return std::ranges::count(shown.copies, down, &Copying::down) > 0;
    };
    if (!moves(before) && !moves(now)) continue;
    viz::arrow(scene, down ? "link/offload" : "link/load",
               {at.x + (down ? 14 : at.w / 2), at.y, at.w / 2 - 14, at.h}, down,
               down ? "offload" : "load");
  }
}

/// A block has its name when its copy is there.
viz::ShelfBlocks without_copies(viz::ShelfBlocks shelf) {
  for (viz::ShelfBlock& block : shelf) {
    if (block.state != State::kReserved || block.name.empty()) continue;
    block.tooltip += "\nit will hold " + std::exchange(block.name, "");
  }
  return shelf;
}

}  // namespace

/// The name of a block that was overwritten is struck out where it stood.
void strike_evicted(viz::Scene& scene, const viz::ShelfBlocks& before,
                    const viz::ShelfBlocks& now) {
  for (size_t i = 1; i < std::min(before.size(), now.size()); ++i) {
    if (!before[i].cached || before[i].name == now[i].name) continue;
    scene.ends(viz::shelf_block_id(0, static_cast<int32_t>(i)) + "/name " + before[i].name,
               {0.05f, viz::kFills.begin}, true);
  }
}

/// Requests above, and what each did in the passes; below them two floors and the link between.
viz::Scene HostTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8;
  viz::Scene scene(room);
  const float note = viz::is_narrow(room) ? 70 : 32, foot = viz::is_narrow(room) ? 66 : 18;
  const float tall = std::clamp(0.12f * room.h, 46.0f, 90.0f);
  if (now_.asked.empty()) viz::heading(scene, "empty", {0, 0, room.w, kHeading}, "no request yet");
  const float pitch = room.w / static_cast<float>(std::max<size_t>(now_.asked.size(), 3));
  float x = 0;
  for (const Asked& asked : now_.asked) {
    draw_card(scene, asked, {x, 0, pitch - 8, tall}, selected() == asked.name);
    x += pitch;
  }
  const float top = tall + kGap + (room.is_told ? 0 : note + kGap);
  const float h = room.h - foot - kGap - top, link = std::clamp(0.1f * h, 30.0f, 60.0f);
  const float floor = (h - link - 2 * kGap) / 2;
  const Place device{0, top, room.w, floor}, between{0, device.bottom() + kGap, room.w, link};
  viz::shelf(scene, 0, "device", without_copies(now_.shelves[0]), device);
  viz::shelf(scene, 1, "host memory", without_copies(now_.shelves[1]),
             {0, between.bottom() + kGap, room.w, floor});
  strike_evicted(scene, before_.shelves[0], now_.shelves[0]);
  for (const Copying& copy : before_.copies) {
    if (std::ranges::count(now_.copies, copy.id, &Copying::id) > 0) continue;
    const std::string name = copy.to + "/name " + copy.name;
    if (scene.find(name) != nullptr) viz::let_come(scene, copy.from, copy.to, name, viz::kLands);
  }
  draw_link(scene, before_, now_, {0, between.y, room.w / 2, link});
  viz::saved(scene, "loaded", {0.45f * room.w, between.y, 0.55f * room.w, link}, before_.loaded,
             now_.loaded);
  if (!room.is_told) {
    viz::reason(scene, {0, tall + kGap, room.w, note}, now_.reason, now_.points_at, {0, 0.15f});
  }
  viz::legend(scene, {0, room.h - foot, room.w, foot},
              {{State::kInUse, "in use"},
               {State::kCached, "free, can be found"},
               {State::kReserved, "being copied", 0},
               {.state = State::kCached, .name = "host has a copy", .has_twin = true},
               {State::kPreempted, "preempted"},
               {State::kFree, "empty"}});
  scene.lasts(now_.num_passes > before_.num_passes ? 1.1f : 0.5f);
  return scene;
}

}  // namespace lesson11
