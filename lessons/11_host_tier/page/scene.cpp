#include "picture.h"
#include "viz/ui.h"

namespace lesson11 {

/// Requests above; below them the pools, one above the other, and what the passes were.
Areas::Areas(const viz::Room& room) {
  constexpr float kGap = 8, kNote = 32;
  const float tall = std::clamp(0.24f * room.h, 92.0f, 210.0f);
  const float left = std::floor(0.6f * room.w);
  cards = {0, 0, room.w, tall};
  reason = {0, tall + kGap, room.w, kNote};
  legend = {0, room.h - 18, room.w, 18};
  const float top = reason.bottom() + kGap, h = legend.y - kGap - top;
  const float between = std::clamp(0.12f * h, 24.0f, 48.0f);
  const float shelf = (h - between - 2 * kGap) / 2;
  shelves[0] = {0, top, left, shelf};
  link = {0, top + shelf + kGap, left, between};
  shelves[1] = {0, link.bottom() + kGap, left, shelf};
  times = {left + 2 * kGap, top, room.w - left - 2 * kGap, h};
}

Picture::Picture(const HostTierPage& page, const viz::Room& room)
    : page_(page), now_(page.now_), before_(page.before_), scene_(room), areas_(room) {}

viz::Scene Picture::drawn() {
  draw_cards();
  for (int shelf = 0; shelf < std::ssize(now_.shelves); ++shelf) draw_shelf(shelf);
  draw_link();
  draw_ghosts();
  draw_times();
  draw_reason();
  draw_legend();
  scene_.lasts(now_.has_passed ? 1.1f : 0.5f);
  return std::move(scene_);
}

void Picture::draw_reason() {
  if (now_.reason.empty()) return;
  Place at = areas_.reason;
  const float wide = viz::text_width(now_.reason, 13) + 20;
  const viz::Shape* const target = scene_.find(now_.points_at);
  const float middle = target != nullptr ? target->at.middle_x() : 0;
  at.x = std::max(0.0f, std::min(middle - wide / 2, at.w - wide));
  at.w -= at.x;
  viz::note(scene_, "note", at, now_.reason, now_.points_at, Ink::kMark, {0, 0.15f});
}

void Picture::draw_legend() {
  std::vector<viz::LegendEntry> entries{{State::kInUse, "in use"},
                                        {State::kReserved, "being copied"},
                                        {State::kCached, "free, can be found"},
                                        {State::kFree, "empty"},
                                        {State::kFound, "found"},
                                        {State::kPrompt, "computed"}};
  constexpr float kCopy = 130;
  const auto wide = [&] {
    float w = kCopy;
    for (const viz::LegendEntry& entry : entries) w += 46 + viz::text_width(entry.name, 12);
    return w;
  };
  while (wide() > areas_.legend.w) entries.pop_back();
  viz::legend(scene_, areas_.legend, entries);
  const Place at{wide() - kCopy, areas_.legend.middle_y() - 7, 20, 14};
  dress(scene_.box("legend/copy", at, {}), State::kCached).radius = 3;
  scene_.box("legend/copy/bar", {at.x + 3, at.bottom() - 5, at.w - 6, 3}, paint(Ink::kText));
  scene_.label("legend/copy/name", {at.x + 26, areas_.legend.y, kCopy - 26, areas_.legend.h},
               "the host has a copy", {.size = 12, .paint = {Ink::kDim}});
}

viz::Scene HostTierPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

void HostTierPage::draw(viz::Ui& ui) {
  if (live_.running()) {
    buttons(
        ui,
        {{"pass", "Pass", "pass"}, {"pass 10", "10 passes", "pass 10"}, {"stop", "Stop", "stop"}});
    return;
  }
  std::string next = selected();  // whose request comes
  const Asked* asked = shown_.asked.find(next);
  if (asked == nullptr || asked->is_there()) {
    const auto idle =
        std::ranges::find_if(shown_.asked, [](const Asked& one) { return !one.is_there(); });
    const bool is_full = !shown_.asked.why_not_add(shown_.asked.free_name()).empty();
    next = is_full && idle != shown_.asked.end() ? idle->name : shown_.asked.free_name();
  }
  form(ui, {"submit", "Submit " + next, "submit " + next});
  buttons(ui, {{"pass", "Pass", "pass"}, {"pass 10", "10", "pass 10"}});
  if (asked != nullptr) {
    buttons(ui, {{asked->name + "/finish", "End " + asked->name, "finish " + asked->name}});
  }
  buttons(ui, {{"copies 1", "1 copy a pass", "copies 1"},
               {"copies 2", "2", "copies 2"},
               {"copies 6", "6", "copies 6"}});
  buttons(ui, {{"policy quicker", "What is quicker", "policy quicker"},
               {"policy always", "Load", "policy always"},
               {"policy never", "Never", "policy never"}});
  buttons(ui, {{"pool 12", "12, 16", "pool 12 16"}, {"pool 24", "24, 48", "pool 24 48"}});
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson11
