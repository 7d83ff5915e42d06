#include "scene.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/table.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/text_room.h"

namespace lesson02 {
namespace {

constexpr float kLegend = 26;
constexpr viz::Span kTold{0.5f, 0.55f};  // numbers change when what they count does

viz::Shape& reserved(viz::Shape& box, int hue) {
  viz::dress(box, viz::State::kReserved, hue).fill = viz::paint(viz::Ink::kCell);
  return box;
}

std::string percent(int64_t part, int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

/// Part i of `count` equal parts of `all`.
viz::Span nth(viz::Span all, size_t i, size_t count) {
  const float each = (all.end - all.begin) / static_cast<float>(count);
  return {all.begin + static_cast<float>(i) * each, all.begin + static_cast<float>(i + 1) * each};
}

/// One slab in a row of its own.
class SlabRow {
 public:
  SlabRow(viz::Scene& scene, int slots, int number, const viz::Place& at)
      : scene_(scene), slots_(slots), hue_(number), id_(fmt::format("slab {}", number)), at_(at) {}

  void draw(const SlabView& slab, size_t seen) {
    const bool above = viz::is_narrow(scene_.room()) && !slab.words.empty();  // room for words
    const float names = above ? 10 : 66, sums = above ? 0 : 104, head = above ? 20 : 0;
    const viz::Place body{at_.x + names, at_.y + head, at_.w - names - sums, at_.h - head};
    const float h = above ? head : at_.h;
    scene_.box(id_ + "/bar", {at_.x, at_.y, 4, at_.h}, viz::full(hue_)).radius = 2;
    scene_.label(id_ + "/name", {at_.x + 10, at_.y, 54, h}, id_);
    const viz::Grid grid =
        viz::fit(slots_, body, {.gap = 3, .flattest = 0.8f, .widest = 3.2f, .round_to = 8});
    if (!slab.words.empty() && grid.w >= 34 && grid.h >= 14) {
      draw_slots(slab, grid, seen);
    } else {
      draw_bar(slab, body);
    }
    draw_sums(slab, {at_.right() - 94, at_.y, 94, h});
  }

 private:
  void draw_bar(const SlabView& slab, const viz::Place& at) {
    const float part = static_cast<float>(slab.used) / static_cast<float>(slots_);
    const viz::Place used{at.x, at.y, at.w * part, at.h};
    const viz::Place empty{used.right(), at.y, at.w - used.w, at.h};
    scene_.box(id_, at, viz::paint(viz::Ink::kCell), viz::full(hue_))
        .tip(fmt::format("{}: {} of {} hold a token", id_, kv::with_commas(slab.used),
                         kv::count_of(slots_, "slot")))
        .selecting(id_);
    for (const bool holds : {true, false}) {
      viz::Shape& piece = scene_.box(id_ + (holds ? "/used" : "/rest"), holds ? used : empty, {});
      holds ? viz::dress(piece, viz::State::kInUse, hue_) : reserved(piece, hue_);
      piece.during({0, 0.7f});
    }
  }

  void draw_slots(const SlabView& slab, const viz::Grid& grid, size_t seen) {
    for (int i = 0; i < slots_; ++i) {
      const std::string id = fmt::format("slot {}/{}", hue_, i);
      viz::Shape& slot = scene_.box(id, grid.cell(i), {});
      const bool known = static_cast<size_t>(i) < slab.words.size();
      if (i < slab.used) {
        viz::dress(slot, viz::State::kInUse, hue_);
      } else {
        reserved(slot, hue_);
        if (known) slot.patterned(viz::Pattern::kPlain).dashed_edge();
      }
      slot.tip(fmt::format("slot {} of {}", i, id_)).radius = 3;
      if (!known) continue;
      const size_t token = i;
      viz::Shape& word =
          scene_.label(id + "/token", grid.cell(i).inset(2), slab.words[token],
                       {.size = std::min(14.0f, 0.6f * grid.h), .align = viz::Align::kCentre}, 6);
      if (token < seen) continue;
      const viz::Span span = nth({0.1f, 0.9f}, token - seen, slab.words.size() - seen);
      word.comes_from(id_ + "/name", span);
      scene_.find(id)->during(span);
    }
  }

  void draw_sums(const SlabView& slab, const viz::Place& at) {
    const viz::Type type{.size = 12, .paint = {viz::Ink::kDim}};
    const int empty = slots_ - slab.used;
    if (at.h < 34) {
      scene_.label(id_ + "/empty", at, percent(empty, slots_) + " empty", type);
      return;
    }
    const float y = at.middle_y() - (slab.done ? 27 : 18);
    scene_.label(id_ + "/uses", {at.x, y, at.w, 18}, kv::with_commas(slab.used) + " used")
        .during(kTold);
    scene_.label(id_ + "/empty", {at.x, y + 18, at.w, 18}, kv::with_commas(empty) + " empty", type)
        .during(kTold);
    if (slab.done) scene_.label(id_ + "/done", {at.x, y + 36, at.w, 18}, "done, and kept", type);
  }

  viz::Scene& scene_;
  int slots_, hue_;
  std::string id_;
  viz::Place at_;
};

/// All slabs together: the slots with tokens, and those without.
void draw_waste(viz::Scene& scene, const SlabsView& view, const viz::Place& at) {
  const int64_t all = std::ssize(view.slabs) * view.slots;
  const viz::Place bar{at.x, at.bottom() - 0.5f * at.h, at.w, 0.5f * at.h};
  int64_t used = 0;
  const auto piece = [&](const std::string& id, int64_t end, viz::State state, int hue) {
    const auto x = [&](int64_t slot) {
      return bar.w * static_cast<float>(slot) / static_cast<float>(all);
    };
    const viz::Place part{bar.x + x(used), bar.y, x(end) - x(used), bar.h};
    viz::dress(scene.box("together/" + id, part, {}), state, hue).during({0, 0.7f}).radius = 0;
    used = end;
  };
  for (size_t i = 0; i < view.slabs.size(); ++i) {
    piece(std::to_string(i), used + view.slabs[i].used, viz::State::kInUse, static_cast<int>(i));
  }
  const int64_t empty = all - used;
  piece("rest", all, viz::State::kReserved, -1);
  scene
      .label("waste", {at.x, at.y, at.w, 0.45f * at.h},
             fmt::format("{} of {} hold nothing", percent(empty, all),
                         kv::count_of(all, "reserved slot")),
             {.size = std::min(24.0f, 0.38f * at.h), .align = viz::Align::kRight})
      .during(kTold);
}

/// One range, to scale: the waiting requests above it, the free slots below it.
class Range {
 public:
  Range(viz::Scene& scene, const Reservations& range)
      : scene_(scene), range_(range), h_(scene.room().h - kLegend) {}

  void draw() {
    draw_tray();
    draw_strip();
    draw_free();
    const viz::Place out{0.5f * scene_.room().w, h_, 0, 0};
    scene_.leaves("request " + range_.released(), out, kRelease);
    scene_.leaves("request " + range_.released() + "/name", {out.x + 4, out.y}, kRelease);
    scene_.leaves("request " + range_.released() + "/size", {out.x + 3, out.y + 0.13f * h_},
                  kRelease);
    const std::vector<Reservations::Search>& searches = range_.searches();
    const viz::Span all{range_.released().empty() ? 0.05f : 0.4f, 0.95f};
    size_t legs = 0, begun = 0;
    for (const Reservations::Search& search : searches) legs += legs_of(search);
    for (const Reservations::Search& search : searches) {
      const float begin = nth(all, begun, legs).begin;
      follow(search, {begin, nth(all, begun += legs_of(search), legs).begin});
    }
    const float release = range_.released().empty() ? 0.2f : 0.6f;
    scene_.lasts(std::clamp(release + 0.4f * static_cast<float>(legs), 0.6f, 5.0f));
    draw_reason();
  }

 private:
  using Reservation = Reservations::Reservation;
  static constexpr viz::Span kRelease{0, 0.35f}, kEnd{0.95f, 1};

  /// Parts of a search's way: to each hole that is too small, a stop there, and to its end.
  static size_t legs_of(const Reservations::Search& search) {
    return 2 * search.too_small.size() + 1;
  }

  float x(int64_t slot) const {
    return scene_.room().w * static_cast<float>(slot) / Reservations::kCapacity;
  }
  /// The place of `size` slots from `begin` on. One slot alone can be seen, too.
  viz::Place of_slots(int64_t begin, int64_t size, float y, float h) const {
    const float w = std::max(x(size) - 2, 1.0f);
    return {std::min(x(begin) + 1, scene_.room().w - w), y, w, h};
  }
  viz::Place in_strip(int64_t begin, int64_t size) const {
    return of_slots(begin, size, 0.36f * h_, 0.26f * h_);
  }
  viz::Place in_tray() const { return {1, 20, 0, 0.26f * h_}; }

  /// A label is left out, and null returned, where no letters fit: its box has a tooltip.
  viz::Shape* label(const std::string& id, const viz::Place& at, const std::string& text,
                    const viz::Type& type) {
    constexpr float kLeast = 6;
    if (viz::text_width(text, viz::readable(scene_.room(), kLeast)) > at.w) return nullptr;
    return &scene_.label(id, at, text, type, kLeast);
  }

  void request(const Reservation& one, const viz::Place& at) {
    const std::string id = "request " + one.name;
    viz::dress(scene_.box(id, at, {}), viz::State::kInUse, one.hue)
        .selecting(one.name)
        .tip(fmt::format("{}: {}", one.name, kv::count_of(one.size, "slot")));
    label(id + "/name", {at.x + 4, at.y, at.w - 8, 0.6f * at.h}, one.name,
          {.size = 20, .align = viz::Align::kCentre});
    label(id + "/size", {at.x + 3, at.middle_y(), at.w - 6, 0.4f * at.h}, kv::with_commas(one.size),
          {.align = viz::Align::kCentre});
  }

  void draw_tray() {
    const viz::Place tray{0, 0, scene_.room().w, 0.26f * h_ + 24};
    scene_.box("tray", tray, viz::paint(viz::Ink::kPanel));
    scene_.label("tray/name", {8, 0, 200, 20}, "waiting", {.size = 12, .paint = {viz::Ink::kDim}});
    viz::Place at = in_tray();
    int64_t all = 0;
    for (const Reservation& one : range_.all()) all += one.range ? 0 : one.size;
    const float shrunk = std::min(1.0f, static_cast<float>(Reservations::kCapacity) /
                                            static_cast<float>(std::max<int64_t>(all, 1)));
    for (const Reservation& one : range_.all()) {
      if (one.range) continue;
      at.w = std::max(x(one.size) * shrunk - 2, 1.0f);
      request(one, at);
      at.x = at.right() + 2;
    }
  }

  void draw_strip() {
    const viz::Span appear = range_.searches().empty() ? viz::Span{0.3f, 0.6f} : kEnd;
    for (const SlotRange& hole : range_.arena().holes()) {
      const viz::Place at = in_strip(hole.begin, hole.size);
      const std::string id = fmt::format("hole {}", hole.begin);
      viz::dress(scene_.box(id, at, {}), viz::State::kFree)
          .edged(viz::paint(viz::Ink::kDim), 1.2f)
          .during(appear)
          .tip(fmt::format("a hole of {}", kv::count_of(hole.size, "slot")));
      viz::Shape* const size = label(id + "/size", at.inset(3), kv::with_commas(hole.size),
                                     {.paint = {viz::Ink::kDim}, .align = viz::Align::kCentre});
      if (size != nullptr) size->during(appear);
    }
    for (const Reservation& one : range_.all()) {
      if (one.range) request(one, in_strip(one.range->begin, one.size));
    }
    for (int64_t slot = 0; slot <= Reservations::kCapacity; slot += Reservations::kCapacity / 4) {
      const bool last = slot == Reservations::kCapacity;
      scene_.label(fmt::format("slot {}", slot),
                   {x(slot) - (last ? 80.0f : 0.0f), 0.62f * h_ + 2, 80, 16},
                   (slot == 0 ? "slot " : "") + kv::with_commas(slot),
                   {.size = 12,
                    .paint = {viz::Ink::kDim},
                    .align = last ? viz::Align::kRight : viz::Align::kLeft});
    }
  }

  /// The holes as if they were one, and below them the first waiting request.
  void draw_free() {
    const int64_t free = range_.arena().total_free();
    const size_t pieces = range_.arena().holes().size();
    const float y = 0.78f * h_, bar = 0.1f * h_;
    scene_
        .label("free", {0, y - 22, scene_.room().w, 20},
               fmt::format("{} free{}", kv::count_of(free, "slot"),
                           pieces > 1    ? ", if they were one piece"
                           : pieces == 1 ? ", in one piece"
                                         : ""))
        .during(kTold);
    int64_t begin = 0;
    for (const SlotRange& hole : range_.arena().holes()) {
      const viz::Place at = of_slots(begin, hole.size, y, bar);
      viz::dress(scene_.box(fmt::format("free {}", hole.begin), at, {}), viz::State::kFree)
          .edged(viz::paint(viz::Ink::kDim), 1.2f)
          .during(kTold);
      begin += hole.size;
    }
    const Reservation* next = range_.first_waiting();
    if (next == nullptr) return;
    const viz::Place at = of_slots(0, next->size, y + bar + 4, bar);
    viz::dress(scene_.box("wanted", at, {}), viz::State::kInUse, next->hue).during(kEnd);
    viz::Shape* const name = label("wanted/name", at.inset(2),
                                   fmt::format("{} {}", next->name, kv::with_commas(next->size)),
                                   {.align = viz::Align::kCentre});
    if (name != nullptr) name->during(kEnd);
  }

  /// A ghost stops over each hole, sticks out, and goes on.
  void follow(const Reservations::Search& search, viz::Span all) {
    const Reservation& one = range_.all().at(search.name);
    const std::string id = "request " + search.name;
    const bool at_once = !range_.released().empty() && search.too_small.empty();
    viz::Place from = in_tray();
    from.w = in_strip(0, one.size).w;
    const viz::Place last = scene_.find(id)->at;
    for (size_t i = 0; i < legs_of(search) && !at_once; ++i) {
      const bool stands = i % 2 == 1;
      const viz::Place to = stands ? from
                            : i + 1 < legs_of(search)
                                ? in_strip(search.too_small[i / 2].begin, one.size)
                                : last;
      ghost(fmt::format("ghost {}/{}", search.name, i), one, from, to,
            nth(all, i, legs_of(search)));
      from = to;
    }
    for (const char* part : {"", "/name", "/size"}) {
      viz::Shape* const shape = scene_.find(id + part);
      if (shape != nullptr) shape->during({at_once ? all.begin : all.end - 0.02f, all.end});
    }
    if (!search.hole) return;
    viz::Shape taken{.id = "taken " + search.name,
                     .at = in_strip(search.hole->begin, search.hole->size)};
    viz::dress(taken, viz::State::kFree).edged(viz::paint(viz::Ink::kDim), 1.2f);
    scene_.ghost(taken, taken.at, {kRelease.end, all.end});
  }
  void ghost(const std::string& id, const Reservation& one, const viz::Place& from,
             const viz::Place& to, viz::Span span) {
    viz::Shape box{.id = id, .at = from};
    viz::dress(box, viz::State::kInUse, one.hue);
    if (from == to) {  // refused
      box.patterned(viz::Pattern::kCrossed).edged(viz::paint(viz::Ink::kError), 3);
    }
    scene_.ghost(box, to, span);
    viz::Scene words(scene_.room());
    words.label(id + "/name", from, one.name, {.size = 20, .align = viz::Align::kCentre});
    scene_.ghost(words.shapes()[0], to, span);
  }

  void draw_reason() {
    const Reservation* next = range_.first_waiting();
    if (next == nullptr) return;
    const ReservationArena& arena = range_.arena();
    const auto holes = arena.holes();
    const auto largest = std::ranges::max_element(holes, {}, &SlotRange::size);
    viz::note(
        scene_, "reason", {0.55f * scene_.room().w, 8, 0.42f * scene_.room().w, 60},
        fmt::format("{} does not fit: it needs {}, the largest hole has {}, {} are free in all.",
                    next->name, kv::with_commas(next->size), kv::with_commas(arena.largest_hole()),
                    kv::with_commas(arena.total_free())),
        largest == holes.end() ? "" : fmt::format("hole {}", largest->begin), viz::Ink::kError,
        kEnd);
  }

  viz::Scene& scene_;
  const Reservations& range_;
  float h_;
};

}  // namespace

viz::Scene slabs_scene(const viz::Room& room, const SlabsView& view, const SlabsView& before) {
  viz::Scene scene(room);
  const float legend = viz::is_narrow(room) ? 44 : 22, waste = std::min(72.0f, 0.2f * room.h);
  const float h = room.h - legend - 4 - waste - 10;
  const auto pitch = h / static_cast<float>(view.slabs.size());
  size_t fresh = 0;  // words that come at once
  for (size_t i = 0; i < view.slabs.size(); ++i) {
    const SlabView& slab = view.slabs[i];
    const bool same = view.slots == before.slots && i < before.slabs.size();
    const size_t seen = same ? std::min(before.slabs[i].words.size(), slab.words.size()) : 0;
    SlabRow(scene, view.slots, static_cast<int>(i),
            {0, static_cast<float>(i) * pitch, room.w, pitch - std::min(10.0f, 0.2f * pitch)})
        .draw(slab, seen);
    fresh = std::max(fresh, slab.words.size() - seen);
  }
  scene.lasts(std::clamp(0.4f + 0.12f * static_cast<float>(fresh), 0.6f, 3.0f));
  draw_waste(scene, view, {0, h, room.w, waste});
  std::vector<viz::LegendEntry> entries{{viz::State::kInUse, "holds a token"},
                                        {viz::State::kReserved, "reserved, and empty", 0}};
  const bool is_live =
      std::ranges::any_of(view.slabs, [](const SlabView& one) { return !one.words.empty(); });
  if (is_live) entries.push_back({viz::State::kFree, "drawn, not run yet", 0});
  viz::legend(scene, {0, room.h - legend, room.w, legend}, entries);
  return scene;
}

viz::Scene range_scene(const viz::Room& room, const Reservations& range) {
  viz::Scene scene(room);
  Range(scene, range).draw();
  viz::legend(scene, {0, room.h - 22, room.w, 22},
              {{viz::State::kInUse, "reserved by a request"}, {viz::State::kFree, "a hole"}});
  return scene;
}

}  // namespace lesson02
