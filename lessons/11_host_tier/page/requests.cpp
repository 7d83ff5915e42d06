#include "picture.h"

namespace lesson11 {
namespace {

constexpr float kLeastColumn = 4;  // points

State state_of(Doing doing) {
  switch (doing) {
    case Doing::kLoads:
      return State::kCached;
    case Doing::kPrompt:
      return State::kPrompt;
    case Doing::kPreempted:
      return State::kPreempted;
    default:
      return State::kDecode;
  }
}

}  // namespace

std::string word_of(Doing doing) {
  switch (doing) {
    case Doing::kNothing:
      return "to come";
    case Doing::kWaits:
      return "waits";
    case Doing::kLoads:
      return "waits for its blocks";
    case Doing::kPrompt:
      return "runs: prompt";
    case Doing::kDecodes:
      return "runs: decodes";
    case Doing::kPreempted:
      return "preempted";
    case Doing::kEnded:
      return "has ended";
  }
  return "";
}

void Picture::draw_cards() {
  const Place& area = areas_.cards;
  if (now_.asked.empty()) {
    viz::heading(scene_, "empty", {area.x, area.y, area.w, kHeading}, "no request yet");
  }
  const auto count = static_cast<float>(std::max<size_t>(now_.asked.size(), 4));
  const float pitch = area.w / count;
  float x = area.x;
  for (const Asked& asked : now_.asked) {
    card(asked, {x, area.y, pitch - 8, area.h});
    x += pitch;
  }
}

/// Its name, what it does, what of its text it has, and what it has found.
void Picture::card(const Asked& asked, const Place& at) {
  const std::string id = "request " + asked.name;
  viz::Shape& box = scene_.box(id, at, {});
  const bool waits = asked.doing == Doing::kLoads;
  dress(box,
        waits                                              ? State::kCached
        : asked.doing == Doing::kPreempted                 ? State::kPreempted
        : asked.is_there() && asked.doing != Doing::kWaits ? State::kInUse
                                                           : State::kFree,
        asked.hue)
      .fill = {Ink::kHue, asked.hue, 0.06f};
  if (page_.selected() == asked.name) box.edged(paint(Ink::kText), 2.5f);
  box.selecting(asked.name)
      .tip(fmt::format("{} {}\nprompt of {}, up to {} to generate\n{} of {} have their K and V\n{}",
                       asked.name, word_of(asked.doing), kv::count_of(asked.num_prompt, "token"),
                       asked.max_tokens, asked.num_computed, asked.num_known, asked.words));
  const Place inside = at.inset(7);
  const float size = std::clamp(0.12f * at.h, 11.0f, 17.0f), line = 1.35f * size;
  const float name = viz::text_width(asked.name, size) + 8;
  scene_.label(id + "/name", {inside.x, inside.y, name, line}, asked.name, {.size = size});
  scene_.label(id + "/doing", {inside.x + name, inside.y, inside.w - name, line},
               word_of(asked.doing), {.size = std::min(size, 13.0f), .align = Align::kRight}, 8);
  const std::string tokens = asked.id < 0
                                 ? ""
                                 : fmt::format("prompt {}, found {}, {} new", asked.num_prompt,
                                               asked.num_cached, asked.generated);
  float y = inside.y + line + 1;
  if (inside.h > 3 * line + 12 && viz::text_width(tokens, 9) <= inside.w) {
    scene_.label(id + "/tokens", {inside.x, y, inside.w, line}, tokens,
                 {.size = std::min(size, 12.0f), .paint = {Ink::kText}}, 9);
    y += line + 1;
  }
  blocks(asked, {inside.x, y + 3, inside.w, inside.bottom() - y - 3});
}

/// A cell for each block of its tokens: where it was found, or whether it is computed.
void Picture::blocks(const Asked& asked, const Place& at) {
  if (asked.id < 0 || at.h < 8) return;
  const int count = lesson03::blocks_for(asked.num_prompt + asked.max_tokens, kBlockSize);
  const viz::Grid grid =
      viz::fit(count, at, {.gap = 3, .flattest = 0.8f, .widest = 2.6f, .most_w = 60, .most_h = 34});
  const char* const where[] = {"device", "host"};
  for (int i = 0; i < count; ++i) {
    const std::string id = fmt::format("{}/part {}", asked.name, i);
    const bool cached = i * kBlockSize < asked.num_cached;
    const bool there = i * kBlockSize < asked.num_computed;
    // What was found and lost on the way is computed: it does not come from there.
    const bool found = i < std::ssize(asked.found) && (cached || !there);
    const State state = there && cached                              ? State::kFound
                        : there && i * kBlockSize < asked.num_prompt ? State::kPrompt
                        : there                                      ? State::kDecode
                        : found && asked.is_there()                  ? State::kCached
                                                                     : State::kFree;
    const Place cell = grid.cell(i);
    viz::Shape& box = scene_.box(id, cell, {});
    dress(box, state, state == State::kFree ? -1 : asked.hue).radius = 2;
    std::string text = found ? where[asked.found[static_cast<size_t>(i)]] : "";
    box.tip(fmt::format("tokens {} to {}{}{}", i * kBlockSize, (i + 1) * kBlockSize - 1,
                        found ? ", found: " : "", text));
    if (!found || cell.h < 11) continue;
    if (viz::text_width(text, 8) > cell.w - 3) text.resize(1);
    if (viz::text_width(text, 8) > cell.w - 3) continue;
    scene_.label(id + "/where", cell, text,
                 {.size = std::min(12.0f, 0.7f * cell.h), .align = Align::kCentre}, 8);
  }
}

/// A row for each conversation, a column for each pass; below them what the links have copied.
void Picture::draw_times() {
  const Place& at = areas_.times;
  const auto total = static_cast<size_t>(now_.num_passes);
  size_t columns = 16;
  while (columns < total && columns < 64) columns *= 2;
  const size_t first = total > columns ? total - columns : 0;
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading},
               total == 0
                   ? "no pass yet"
                   : fmt::format("pass {} had {}", total, kv::count_of(now_.num_rows, "token")));
  float left = viz::text_width("device - host", 11) + 6;
  const float column = std::max((at.w - left) / static_cast<float>(columns), kLeastColumn / 2);
  const float top = at.y + kHeading + 4;
  const float link = std::clamp(0.13f * at.h, 26.0f, 70.0f);
  const float low = at.bottom() - (link + 8) - kHeading;
  const float pitch =
      std::min((low - 6 - top) / static_cast<float>(std::max<size_t>(now_.asked.size(), 4)), 34.0f);
  float y = top;
  for (const Asked& asked : now_.asked) {
    scene_.label(asked.name + "/row", {at.x, y, left, pitch - 2}, asked.name,
                 {.size = std::min(12.0f, 0.8f * pitch)}, 7);
    row(asked, {at.x + left, y, at.w - left, pitch - 4}, first, column);
    y += pitch;
  }
  viz::heading(scene_, "links", {at.x, low, at.w, kHeading},
               "blocks copied: loaded above, offloaded below");
  traffic_row({at.x + left, low + kHeading + 2, at.w - left, link}, first, column);
}

/// Passes alike are one bar.
void Picture::row(const Asked& asked, const Place& at, size_t first, float column) {
  size_t run = 0;
  for (size_t begin = 0, end = 0; begin < asked.marks.size(); begin = end, ++run) {
    const Doing mark = asked.marks[begin];
    while (end < asked.marks.size() && asked.marks[end] == mark) ++end;
    if (mark == Doing::kNothing || mark == Doing::kEnded || end <= first) continue;
    const float x = at.x + column * static_cast<float>(std::max(begin, first) - first);
    const float w = column * static_cast<float>(end - std::max(begin, first));
    Place bar{x, at.y, std::max(w - 1, 1.0f), at.h};
    if (mark == Doing::kWaits) bar = {bar.x, bar.middle_y() - 1.5f, bar.w, 3};
    viz::Shape& box =
        scene_.box(fmt::format("{}/run {}", asked.name, run), bar, viz::soft(asked.hue));
    if (mark != Doing::kWaits) dress(box, state_of(mark), asked.hue);
    box.during(kFills)
        .tip(fmt::format("{}, pass {} to {}: {}", asked.name, begin + 1, end, word_of(mark)))
        .radius = 2;
    if (mark == Doing::kDecodes) box.fill = viz::full(asked.hue);
  }
}

void Picture::traffic_row(const Place& at, size_t first, float column) {
  int64_t most = 2;
  for (const Traffic& pass : now_.traffic) most = std::max({most, pass.offloaded, pass.loaded});
  scene_.box("traffic", at, paint(Ink::kPanel), paint(Ink::kLine)).radius = 0;
  const float each = at.h / 2 / static_cast<float>(most);
  scene_.line("traffic/zero", at.x, at.middle_y(), at.right(), at.middle_y(), paint(Ink::kLine), 1);
  for (size_t pass = first; pass < now_.traffic.size(); ++pass) {
    const float x = at.x + column * static_cast<float>(pass - first);
    const float w = std::max(column - 1, 1.0f);
    for (const bool down : {true, false}) {
      const int64_t count = down ? now_.traffic[pass].offloaded : now_.traffic[pass].loaded;
      if (count == 0) continue;
      const float h = each * static_cast<float>(count);
      scene_
          .box(fmt::format("traffic/{} {}", down ? "down" : "up", pass),
               {x, down ? at.middle_y() : at.middle_y() - h, w, h}, paint(Ink::kDim))
          .during(kFills)
          .tip(fmt::format("pass {}: {} {}", pass + 1, kv::count_of(count, "block"),
                           down ? "offloaded" : "loaded"))
          .radius = 1;
    }
  }
}

}  // namespace lesson11
