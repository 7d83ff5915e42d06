#include "picture.h"

namespace lesson08 {
namespace {

constexpr int kMostEntries = 48;  // of a card: more blocks are a bar

}  // namespace

void Picture::lane(const std::string& id, const Place& at, const std::string& title) {
  const float left = std::min(8.0f, 0.1f * at.w);
  scene_.box("lane " + id, at, paint(Ink::kPanel)).radius = 8;
  viz::heading(scene_, "lane " + id + "/title", {at.x + left, at.y + 3, at.w - left - 4, kHeading},
               title);
}

/// The next one that starts is nearest to the gate.
void Picture::draw_lanes() {
  lane("waiting", areas_.waiting, "waiting");
  lane("running", areas_.running, "running");
  lane("ended", areas_.ended, "ended");
  const auto first = page_.first_in_line();
  const bool closed = first && first->num_needed > first->num_free;
  const float x = (areas_.waiting.right() + areas_.running.x) / 2, y = areas_.waiting.y + 4;
  scene_
      .line("gate", x, y, x, areas_.waiting.bottom() - 4, paint(closed ? Ink::kText : Ink::kLine),
            closed ? 4.0f : 2.0f)
      .dashed = !closed;
  const auto inside = [](const Place& lane) {
    return Place{lane.x + 7, lane.y + kHeading + 6, lane.w - 14, lane.h - kHeading - 13};
  };
  const viz::CellShape shape{.gap = 7, .flattest = 0.7f, .widest = 2.4f, .most_w = 260};
  const auto active = static_cast<int>(page_.waiting_.size() + page_.running_.size());
  const Place line = inside(areas_.waiting);
  const viz::Grid grid = viz::fit(std::max(active, 4), line, shape);
  for (int i = 0; i < std::ssize(page_.waiting_); ++i) {
    Place at = grid.cell(i);
    at.x = line.x + line.right() - at.right();
    card(page_.seen_of(page_.waiting_[static_cast<size_t>(i)]), at);
  }
  for (int i = 0; i < std::ssize(page_.running_); ++i) {
    Place at = grid.cell(i);
    at.x += areas_.running.x - areas_.waiting.x;
    card(page_.seen_of(page_.running_[static_cast<size_t>(i)]), at);
  }
  if (preempts_) ring_victims(grid);
  const viz::Grid ended = viz::fit(std::max(static_cast<int>(page_.ended_.size()), 6),
                                   inside(areas_.ended), {.most_w = 130, .most_h = 34});
  for (size_t i = 0; i < page_.ended_.size(); ++i) {
    card(page_.seen_of(page_.ended_[i]), ended.cell(static_cast<int>(i)));
  }
}

/// Where they were.
void Picture::ring_victims(const viz::Grid& grid) {
  const std::vector<int64_t>& running = page_.before_.running;
  for (const int64_t id : page_.last_.preempted) {
    const auto index = std::ranges::find(running, id) - running.begin();
    Place at = grid.cell(static_cast<int>(index));
    at.x += areas_.running.x - areas_.waiting.x;
    viz::Shape ring{.id = "victim " + page_.seen_of(id).name, .at = at};
    ring.edged(paint(Ink::kError), 3);
    scene_.ghost(ring, at, {0.08f, acts_.goes.begin});
  }
}

void Picture::card(const Seen& seen, const Place& at) {
  const Span when = has_ended(seen) ? acts_.ends : acts_.goes;
  viz::Shape& box = scene_.box("request " + seen.name, at, {});
  const bool preempted = seen.num_preemptions > 0 && in_line(seen);
  dress(box, preempted ? State::kPreempted : State::kInUse, seen.hue).fill.strength = 0.06f;
  if (page_.selected() == seen.name) box.edged(paint(Ink::kText), 2.5f);
  box.selecting(seen.name).during(when).tip(
      fmt::format("{}: prompt of {}, up to {} to generate\n{} of {} have a slot\n{}", seen.name,
                  kv::count_of(seen.num_prompt, "token"), seen.max_tokens, seen.num_computed,
                  seen.num_prompt + seen.generated, seen.words));
  const float pad = std::clamp(0.06f * at.h, 3.0f, 12.0f);
  const Place inside = at.inset(pad);
  const float size = std::clamp(0.15f * at.h, 10.0f, 22.0f), top = std::min(1.3f * size, inside.h);
  card_head(seen, {inside.x, inside.y, inside.w, top}, size, when);
  float y = inside.y + top + 0.5f * pad;
  const float rest = inside.bottom() - y;
  if (seen.ended || rest < 6) return;
  const float bar = std::clamp(0.18f * rest, 4.0f, 18.0f);
  viz::progress(scene_, seen,
                {.num_prompt = seen.num_prompt,
                 .num_generated = seen.generated,
                 .max_generated = seen.max_tokens,
                 .num_computed = seen.num_computed},
                {inside.x, y, inside.w, bar}, when, counts(seen));
  y += bar + pad;
  if (!seen.words.empty()) {
    const float h = 0.45f * (inside.bottom() - y);
    if (h >= 8)
      viz::last_lines(scene_, seen.name + "/words", {inside.x, y, inside.w, h}, seen.words, when);
    y += std::max(h, 0.0f);
  }
  if (inside.bottom() - y >= 5) entries(seen, {inside.x, y, inside.w, inside.bottom() - y}, when);
}

void Picture::card_head(const Seen& seen, const Place& at, float size, Span when) {
  const float name = std::min(at.w, viz::text_width(seen.name, size) + 6);
  scene_.label(seen.name + "/name", {at.x, at.y, name, at.h}, seen.name, {.size = size}, 5)
      .during(when);
  const int prompt = std::min(seen.num_computed, seen.num_prompt);
  const std::string fresh = fmt::format("+{}", seen.generated);
  const auto fits = [&](const std::string& text, float least) {
    return viz::text_width(text, least) <= at.w - name;
  };
  std::string numbers =
      fmt::format("prompt {} of {}, {} new", prompt, seen.num_prompt, seen.generated);
  if (!fits(numbers, 11)) numbers = fmt::format("{}/{}  {}", prompt, seen.num_prompt, fresh);
  if (seen.ended || !fits(numbers, 9)) numbers = fresh;
  if (!fits(numbers, 9)) return;
  scene_
      .label(seen.name + "/numbers", {at.x + name, at.y, at.w - name, at.h}, numbers,
             {.size = std::min(size, 14.0f), .align = viz::Align::kRight})
      .during(counts(seen));
}

/// The blocks that it holds, of those that it may need in the end.
void Picture::entries(const Seen& seen, const Place& at, Span when) {
  const int most =
      lesson03::blocks_for(seen.num_prompt + seen.max_tokens - 1, page_.settings_.block_size);
  const auto held = static_cast<int>(seen.ids.size());
  const viz::Grid grid = viz::fit(
      most, at,
      {.gap = 3, .flattest = 0.9f, .widest = 1.5f, .most_w = std::max(34.0f, 0.6f * at.h)});
  if (most > kMostEntries || grid.h < 5) {
    viz::level(scene_, seen.name + "/held", {at.x, at.y, at.w, std::min(at.h, 10.0f)},
               static_cast<float>(held) / static_cast<float>(most), soft(seen.hue));
    for (const char* part : {"/held", "/held/fill"}) scene_.find(seen.name + part)->during(when);
    return;
  }
  const auto first = page_.first_in_line();
  const int needed = first && first->id == seen.hue ? first->num_needed : 0;
  for (int i = held; i < most; ++i) {
    viz::Shape& place = scene_.box(fmt::format("{}/place {}", seen.name, i), grid.cell(i), {});
    dress(place, State::kFree).radius = 2;
    place.comes_from(fmt::format("{}/entry {}", seen.name, i), when);
    place.edge = paint(i < needed ? Ink::kText : Ink::kLine);
  }
  const Seen* old = before(seen);
  const int had = old != nullptr ? static_cast<int>(old->ids.size()) : 0;
  const bool looked = has(page_.last_.started, seen.hue) || has(page_.last_.resumed, seen.hue);
  const Scheduler* of = page_.scheduler();
  const int found = looked && of != nullptr && !seen.ended
                        ? of->request(seen.hue).num_cached / page_.settings_.block_size
                        : 0;
  for (int i = 0; i < held; ++i) {
    const std::string id = fmt::format("{}/entry {}", seen.name, i);
    const int32_t number = seen.ids[static_cast<size_t>(i)];
    const std::string source = fmt::format("block {}", number);
    const bool fresh = i >= had;
    const Span one = fresh ? viz::in_turn(acts_.takes, static_cast<size_t>(i - had),
                                          static_cast<size_t>(held - had))
                           : when;
    viz::Shape& entry = scene_.box(id, grid.cell(i), {});
    dress(entry, i < found ? State::kFound : State::kInUse, seen.hue);
    entry.lighting({source}).tip(fmt::format("{}, table entry {}: block {}", seen.name, i, number));
    entry.during(one).radius = 2;
    if (fresh) entry.from = source;
    if (grid.w >= 17 && grid.h >= 12) {
      scene_.label(id + "/id", grid.cell(i), std::to_string(number),
                   {.size = std::min(12.0f, 0.6f * grid.h), .align = viz::Align::kCentre}, 7);
      scene_.find(id + "/id")->during(one).from = fresh ? source : "";
    }
    if (fresh) hint(number, one);
  }
  if (preempts_ && page_.shortage_->id == seen.hue) {
    for (int i = had; i < std::min(had + page_.shortage_->num_wanted, most); ++i) {
      viz::Shape wanted{.id = fmt::format("{}/wanted {}", seen.name, i),
                        .at = grid.cell(i),
                        .edge = paint(Ink::kError),
                        .thickness = 3,
                        .radius = 2};
      scene_.ghost(wanted, wanted.at, {0, acts_.takes.end});
    }
  }
}

}  // namespace lesson08
