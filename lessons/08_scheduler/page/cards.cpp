#include "picture.h"

namespace lesson08 {
namespace {

constexpr int kMostEntries = 48;  // of a card: more blocks are a bar

/// The part of a lane in which its cards are.
Place inside(const Place& lane) {
  return {lane.x + 7, lane.y + kHeading + 6, lane.w - 14, lane.h - kHeading - 13};
}

}  // namespace

void Picture::lane(const std::string& id, const Place& at) {
  const float left = std::min(8.0f, 0.1f * at.w);
  scene_.box("lane " + id, at, paint(Ink::kPanel)).radius = 8;
  viz::heading(scene_, "lane " + id + "/title", {at.x + left, at.y + 3, at.w - left - 4, kHeading},
               id);
}

/// Draws the lanes. The request that starts next is nearest to the gate.
void Picture::draw_lanes() {
  lane("waiting", areas_.waiting);
  lane("running", areas_.running);
  lane("ended", areas_.ended);
  const auto first = page_.first_in_line();
  const bool closed = first && first->num_needed > first->num_free;
  const float x = (areas_.waiting.right() + areas_.running.x) / 2, y = areas_.waiting.y + 4;
  scene_
      .line("gate", x, y, x, areas_.waiting.bottom() - 4, paint(closed ? Ink::kText : Ink::kLine),
            closed ? 4.0f : 2.0f)
      .dashed = !closed;
  const auto active = static_cast<int>(now_.waiting.size() + now_.running.size());
  const Place line = inside(areas_.waiting);
  const viz::Grid grid = viz::fit(std::max(active, 4), line,
                                  {.gap = 7, .flattest = 0.7f, .widest = 2.4f, .most_w = 420});
  for (size_t i = 0; i < now_.waiting.size(); ++i) {
    Place at = grid.cell(static_cast<int>(i));
    at.x = line.x + line.right() - at.right();
    card(now_.of(now_.waiting[i]), at);
  }
  for (size_t i = 0; i < now_.running.size(); ++i) {
    Place at = grid.cell(static_cast<int>(i));
    at.x += areas_.running.x - areas_.waiting.x;
    card(now_.of(now_.running[i]), at);
  }
  const auto num_ended = static_cast<int>(std::ranges::count(now_.seen, true, &Seen::ended));
  const viz::Grid ended =
      viz::fit(std::max(num_ended, 6), inside(areas_.ended), {.most_w = 240, .most_h = 60});
  int cell = 0;
  for (const Seen& seen : now_.seen) {
    if (seen.ended) card(seen, ended.cell(cell++));
  }
}

/// Draws a request: its name and numbers, its tokens, its last words, and its blocks.
void Picture::card(const Seen& seen, const Place& at) {
  const Span when = has_ended(seen) ? acts_.ends : acts_.goes;
  const bool waits = std::ranges::count(now_.waiting, seen.id) > 0;
  const State state = seen.num_preemptions > 0 && waits ? State::kPreempted : State::kInUse;
  const int prompt = std::min(seen.num_computed, seen.num_prompt);
  const char* const words = at.w > 190   ? "prompt {} of {}, {} new"
                            : at.w > 120 ? "{} of {}, {} new"
                                         : "{}/{} +{}";
  const std::string numbers =
      seen.ended ? fmt::format("+{}", seen.generated)
                 : fmt::format(fmt::runtime(words), prompt, seen.num_prompt, seen.generated);
  // What a card passes does not shine through.
  scene_.box(seen.name + "/ground", at, paint(Ink::kPanel)).during(when);
  Place room = viz::request_card(scene_, seen, at, state, page_.selected() == seen.name, numbers,
                                 viz::described(seen), when);
  if (seen.ended || room.h < 6) return;
  const float bar = std::clamp(0.18f * room.h, 4.0f, 18.0f), pad = 0.06f * at.h;
  const viz::Progress tokens{.num_prompt = seen.num_prompt,
                             .num_generated = seen.generated,
                             .max_generated = seen.max_tokens,
                             .num_computed = seen.num_computed};
  // A bar of a card that moves goes with it, and does not wait for the pass.
  const bool moves = now_.waiting != before_.waiting || now_.running != before_.running;
  viz::progress(scene_, seen, tokens, {room.x, room.y, room.w, bar}, when,
                moves ? when : acts_.grows);
  room = {room.x, room.y + bar + pad, room.w, room.h - bar - pad};
  if (!seen.words.empty() && room.h >= 18) {
    const float h = 0.45f * room.h;
    viz::last_lines(scene_, seen.name + "/words", {room.x, room.y, room.w, h}, seen.words, when);
    room = {room.x, room.y + h, room.w, room.h - h};
  }
  if (room.h >= 5) entries(seen, room, when);
}

/// Draws the blocks that a request holds, of those that it may need in the end.
void Picture::entries(const Seen& seen, const Place& at, Span when) {
  const int size = page_.settings_.block_size;
  const int most = lesson03::blocks_for(seen.num_prompt + seen.max_tokens - 1, size);
  const auto held = static_cast<int>(seen.ids.size());
  const viz::Grid grid = viz::fit(
      most, at,
      {.gap = 3, .flattest = 0.9f, .widest = 1.5f, .most_w = std::max(34.0f, 0.6f * at.h)});
  if (most > kMostEntries || grid.h < 5) {
    viz::level(scene_, seen.name + "/held", {at.x, at.y, at.w, std::min(at.h, 10.0f)},
               static_cast<float>(held) / static_cast<float>(most), soft(seen.hue));
    return;
  }
  const auto first = page_.first_in_line();
  const int needed = first && first->id == seen.id ? first->num_needed : 0;
  for (int i = held; i < most; ++i) {
    viz::Shape& place = scene_.box(fmt::format("{}/place {}", seen.name, i), grid.cell(i), {});
    dress(place, State::kFree).radius = 2;
    place.comes_from(fmt::format("{}/entry {}", seen.name, i), when);
    place.edge = paint(i < needed ? Ink::kText : Ink::kLine);
  }
  const Seen* const old = before_.seen.find(seen.name);
  const int had = old != nullptr ? static_cast<int>(old->ids.size()) : 0;
  const bool looked = has(now_.last.started, seen) || has(now_.last.resumed, seen);
  const int found = looked ? seen.num_cached / size : 0;
  for (int i = 0; i < held; ++i) {
    const std::string id = fmt::format("{}/entry {}", seen.name, i);
    const int32_t number = seen.ids[i];
    const bool fresh = i >= had;
    const std::string source = fresh ? viz::block_id(number) : "";
    const Span one = fresh ? viz::in_turn(acts_.takes, i - had, held - had) : when;
    if (fresh) scene_.leaves(fmt::format("{}/place {}", seen.name, i), grid.cell(i), when);
    viz::Shape& entry = scene_.box(id, grid.cell(i), {});
    dress(entry, i < found ? State::kFound : State::kInUse, seen.hue);
    entry.lighting({viz::block_id(number)})
        .tip(fmt::format("{}, table entry {}: block {}", seen.name, i, number))
        .comes_from(source, one)
        .radius = 2;
    if (grid.w >= 17 && grid.h >= 12) {
      scene_
          .label(id + "/id", grid.cell(i), std::to_string(number),
                 {.size = std::min(12.0f, 0.6f * grid.h), .align = viz::Align::kCentre}, 7)
          .comes_from(source, one);
    }
    if (fresh) viz::block_changes(scene_, number, one);
  }
  if (!preempts_ || now_.shortage->id != seen.id) return;
  for (int i = had; i < std::min(had + now_.shortage->num_wanted, most); ++i) {
    viz::Shape wanted{.id = fmt::format("{}/wanted {}", seen.name, i), .at = grid.cell(i)};
    wanted.edged(paint(Ink::kError), 3).radius = 2;
    scene_.ghost(wanted, wanted.at, {0, acts_.takes.end});
  }
}

/// Draws the tokens of the last pass, and the rest of its budget.
void Picture::draw_pass() {
  const Place& at = areas_.pass;
  const int passes = now_.num_passes, budget = page_.settings_.budget;
  viz::heading(scene_, "pass", {at.x, at.y, at.w, kHeading},
               fmt::format("{}: {} of {} tokens",
                           passes > 0 ? fmt::format("pass {}", passes) : "no pass yet",
                           viz::num_rows(now_.last), budget));
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  scene_.box("budget", room, paint(Ink::kCell), paint(Ink::kLine));
  viz::Bar bar{.id = fmt::format("pass {}", passes), .name_width = 0, .total_width = 0};
  for (const Chunk& chunk : now_.last.chunks) {
    const Seen& seen = now_.of(chunk.id);
    const bool decodes = seen.marks.back() == State::kDecode;
    bar.parts.push_back(
        {.id = bar.id + "/" + seen.name,
         .size = chunk.num_tokens,
         .state = *seen.marks.back(),
         .hue = seen.hue,
         .tooltip = fmt::format("{} of {}", kv::count_of(chunk.num_tokens, "token"), seen.name),
         .text = decodes ? seen.name : fmt::format("{} {}", seen.name, chunk.num_tokens)});
  }
  viz::bar(scene_, bar, room, budget, acts_.runs);
  for (const Chunk& chunk : now_.last.chunks) {
    const std::string& name = now_.of(chunk.id).name;
    for (const char* part : {"", "/text"}) {
      viz::Shape* const shape = scene_.find(bar.id + "/" + name + part);
      if (shape != nullptr) shape->from = "request " + name;
    }
  }
}

/// Draws a row for each request and a column for each pass.
void Picture::draw_times() {
  const Place& at = areas_.times;
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "pass by pass");
  const float top = at.y + kHeading + 2, left = viz::names_width(now_.seen);
  const Place bars{at.x + left, top, at.w - left, at.bottom() - top};
  const float pitch = bars.h / static_cast<float>(std::max<size_t>(now_.seen.size(), 3));
  const size_t total = now_.num_passes;
  viz::pass_rows(scene_, now_.seen, viz::pass_columns(bars, total, 12, 96), left, top,
                 std::min(pitch, std::max(30.0f, 0.11f * at.h)), acts_.grows);
}

}  // namespace lesson08
