#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "page.h"
#include "viz/drawing/lanes.h"
#include "viz/drawing/progress.h"
#include "viz/drawing/text_room.h"

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
  if (asked.doing == State::kCached) return "waits for its blocks";
  if (asked.doing == State::kPrompt) return "runs: prompt";
  if (asked.doing == State::kDecode) return "runs: decodes";
  return asked.doing == State::kPreempted ? "preempted" : "waits";
}

/// A part for each block of its tokens: where it was found, or whether it is computed.
viz::Bar blocks_of(const Asked& asked) {
  viz::Bar bar{.id = asked.name, .name_width = 0, .total_width = 0};
  const int count = lesson03::blocks_for(asked.num_prompt + asked.max_tokens, kBlockSize);
  for (int i = 0; i < count; ++i) {
    const int token = i * kBlockSize;
    const bool cached = token < asked.num_cached, there = token < asked.num_computed;
    // A block that was found and then lost is computed: it does not come from there.
    const bool found = i < std::ssize(asked.found) && (cached || !there);
    const State state = there && cached                     ? State::kFound
                        : there && token < asked.num_prompt ? State::kPrompt
                        : there                             ? State::kDecode
                        : found && asked.is_there()         ? State::kCached
                                                            : State::kFree;
    const bool on_device = found && asked.found[i] == 0;
    bar.parts.push_back({.id = fmt::format("{}/part {}", asked.name, i),
                         .size = 1,
                         .state = state,
                         .hue = state == State::kFree ? -1 : asked.hue,
                         .tooltip = fmt::format("tokens {} to {}", token, token + kBlockSize - 1),
                         .text = !found      ? ""
                                 : on_device ? "device"
                                             : "host"});
  }
  return bar;
}

/// Draws a request: its name, its state, its tokens with K and V, and the blocks that it found.
void draw_card(viz::Scene& scene, const Asked& asked, const Place& at, bool is_selected) {
  const bool waits = !asked.is_there() || !asked.doing || asked.doing == State::kFree;
  const bool runs = asked.doing == State::kPrompt || asked.doing == State::kDecode;
  const State state = waits ? State::kFree : runs ? State::kInUse : *asked.doing;
  Place room = viz::request_card(scene, asked, at, state, is_selected, word_of(asked),
                                 viz::described(asked));
  if (asked.id < 0) return;
  const std::string tokens = fmt::format("prompt {}, found {}, {} new", asked.num_prompt,
                                         asked.num_cached, asked.generated);
  if (room.h > 36 && viz::text_width(tokens, 9) <= room.w) {
    scene.label("request " + asked.name + "/tokens", {room.x, room.y, room.w, 16}, tokens,
                {.size = 12});
    room = {room.x, room.y + 17, room.w, room.h - 17};
  }
  const viz::Bar bar = blocks_of(asked);
  const Place passes{room.x, room.bottom() - 9, room.w, 9};
  const bool has_passes = room.h >= 22;
  room.h = std::min(has_passes ? room.h - 13 : room.h, 34.0f);
  if (room.h >= 8) viz::bar(scene, bar, room, std::ssize(bar.parts));
  if (!has_passes) return;
  const auto total = asked.marks.size();
  viz::pass_row(scene, asked, asked.marks, viz::pass_columns(passes, total, 16, 64), passes.y,
                passes.h, kFills);
}

/// The number that the link is there for, and what it counts.
void draw_number(viz::Scene& scene, const Shown& before, const Shown& now, const Place& at) {
  const float size = std::clamp(0.7f * at.h, 18.0f, 40.0f), wide = viz::text_width("000", size);
  viz::count_up(scene, "loaded", {at.x, at.y, wide, at.h}, before.loaded, now.loaded,
                {.size = size, .align = viz::Align::kRight}, viz::kLands);
  const Place words{at.x + wide + 10, at.middle_y() - 17, at.w - wide - 10, 34};
  scene.paragraph("loaded/name", words, "tokens loaded, and not computed again",
                  {.size = 12, .paint = {viz::Ink::kDim}});
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
  constexpr float kGap = 8, kNote = 32;
  viz::Scene scene(room);
  const bool in_text = viz::is_in_text(room);
  const bool two_lines = in_text || room.w < 920;
  const float legend = two_lines ? 44 : 18;
  const float tall = std::clamp(0.22f * room.h, 92.0f, 170.0f);
  if (now_.asked.empty()) viz::heading(scene, "empty", {0, 0, room.w, kHeading}, "no request yet");
  const float pitch = room.w / static_cast<float>(std::max<size_t>(now_.asked.size(), 3));
  float x = 0;
  for (const Asked& asked : now_.asked) {
    draw_card(scene, asked, {x, 0, pitch - 8, tall}, selected() == asked.name);
    x += pitch;
  }
  const float top = tall + kNote + 2 * kGap, h = room.h - legend - kGap - top;
  const float link = std::clamp(0.2f * h, 36.0f, 72.0f), floor = (h - link - 2 * kGap) / 2;
  const Place device{0, top, room.w, floor}, between{0, device.bottom() + kGap, room.w, link};
  viz::shelf(scene, 0,
             fmt::format("device: {}; 1. is overwritten first",
                         kv::count_of(std::ssize(now_.shelves[0]) - 1, "block")),
             now_.shelves[0], device);
  strike_evicted(scene, before_.shelves[0], now_.shelves[0]);
  viz::ShelfBlocks host = now_.shelves[1];
  for (viz::ShelfBlock& block : host) {
    if (in_text) block.order = -1;  // there is room for the name alone
  }
  viz::shelf(scene, 1, "host memory: " + kv::count_of(std::ssize(host) - 1, "block"), host,
             {0, between.bottom() + kGap, room.w, floor});
  const float link_w = std::floor(0.6f * room.w);
  viz::copies(scene, before_.copies, now_.copies, {0, between.y, link_w, link});
  draw_number(scene, before_, now_,
              {link_w + 2 * kGap, between.y, room.w - link_w - 2 * kGap, link});
  viz::reason(scene, {0, tall + kGap, room.w, kNote}, now_.reason, now_.points_at, {0, 0.15f});
  viz::legend(scene, {0, room.h - legend, room.w, legend},
              viz::fitting({{State::kInUse, "in use"},
                            {State::kReserved, "being copied", 0},
                            {State::kCached, "free, can be found"},
                            {State::kFree, "empty"},
                            {.state = State::kCached, .name = "host has a copy", .has_twin = true},
                            {State::kFound, "found"},
                            {State::kPrompt, "computed"},
                            {State::kDecode, "generated"}},
                           two_lines ? 2 * room.w : room.w));
  scene.lasts(now_.num_passes > before_.num_passes ? 1.1f : 0.5f);
  return scene;
}

}  // namespace lesson11
