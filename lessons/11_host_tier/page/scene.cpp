#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "page.h"
#include "viz/drawing/lanes.h"

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
    const bool on_device = found && asked.found[static_cast<size_t>(i)] == 0;
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
  const std::string tooltip =
      fmt::format("prompt of {}, up to {} to generate\n{} of {} have their K and V\n{}",
                  kv::count_of(asked.num_prompt, "token"), asked.max_tokens, asked.num_computed,
                  asked.num_prompt + asked.generated, asked.words);
  Place room = viz::request_card(scene, asked, at, state, is_selected, word_of(asked), tooltip);
  if (asked.id < 0) return;
  const std::string tokens = fmt::format("prompt {}, found {}, {} new", asked.num_prompt,
                                         asked.num_cached, asked.generated);
  if (room.h > 36 && viz::text_width(tokens, 9) <= room.w) {
    scene.label("request " + asked.name + "/tokens", {room.x, room.y, room.w, 16}, tokens,
                {.size = 12});
    room = {room.x, room.y + 17, room.w, room.h - 17};
  }
  const viz::Bar bar = blocks_of(asked);
  room.h = std::min(room.h, 34.0f);
  if (room.h >= 8) viz::bar(scene, bar, room, std::ssize(bar.parts));
}

/// Draws a row for each conversation and a column for each pass.
void draw_times(viz::Scene& scene, const Shown& now, const Place& at) {
  const auto total = static_cast<size_t>(now.num_passes);
  viz::heading(scene, "times", {at.x, at.y, at.w, kHeading},
               total == 0
                   ? "no pass yet"
                   : fmt::format("pass {} had {}", total, kv::count_of(now.num_rows, "token")));
  const float top = at.y + kHeading + 4, left = viz::names_width(now.asked);
  const Place bars{at.x + left, top, at.w - left, at.bottom() - top};
  const float pitch = bars.h / static_cast<float>(std::max<size_t>(now.asked.size(), 4));
  viz::pass_rows(scene, now.asked, viz::pass_columns(bars, total, 16, 64), left, top,
                 std::min(pitch, 64.0f), kFills);
}

}  // namespace

/// Requests above; below them the pools, one above the other, and what the passes were.
viz::Scene HostTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8, kNote = 32, kLegend = 18;
  viz::Scene scene(room);
  const float tall = std::clamp(0.24f * room.h, 92.0f, 210.0f);
  if (now_.asked.empty()) viz::heading(scene, "empty", {0, 0, room.w, kHeading}, "no request yet");
  const float pitch = room.w / static_cast<float>(std::max<size_t>(now_.asked.size(), 4));
  float x = 0;
  for (const Asked& asked : now_.asked) {
    draw_card(scene, asked, {x, 0, pitch - 8, tall}, selected() == asked.name);
    x += pitch;
  }
  const float left = std::floor(0.64f * room.w), top = tall + kNote + 2 * kGap;
  const float h = room.h - kLegend - kGap - top, link = std::clamp(0.12f * h, 24.0f, 48.0f);
  const float shelf = (h - link - 2 * kGap) / 2;
  const Place device{0, top, left, shelf}, between{0, device.bottom() + kGap, left, link};
  viz::shelf(scene, 0,
             fmt::format("the device: {}; a bar: the host has a copy",
                         kv::count_of(std::ssize(now_.shelves[0]) - 1, "block")),
             now_.shelves[0], device);
  viz::shelf(scene, 1,
             "the host's memory: " + kv::count_of(std::ssize(now_.shelves[1]) - 1, "block"),
             now_.shelves[1], {0, between.bottom() + kGap, left, shelf});
  viz::copies(scene, before_.copies, now_.copies, between);
  draw_times(scene, now_, {left + 2 * kGap, top, room.w - left - 2 * kGap, h});
  viz::reason(scene, {0, tall + kGap, room.w, kNote}, now_.reason, now_.points_at, {0, 0.15f});
  viz::legend(scene, {0, room.h - kLegend, room.w, kLegend},
              viz::fitting({{State::kInUse, "in use"},
                            {State::kReserved, "being copied"},
                            {State::kCached, "free, can be found"},
                            {State::kFree, "empty"},
                            {State::kFound, "found"},
                            {State::kPrompt, "computed"}},
                           room.w));
  scene.lasts(now_.has_passed ? 1.1f : 0.5f);
  return scene;
}

}  // namespace lesson11
