#include "picture.h"
#include "viz/ui.h"

namespace lesson10 {

Areas::Areas(const viz::Room& room, float wanted) {
  constexpr float kGap = 8, kNote = 34;
  legend = {0, room.h - 18, room.w, 18};
  const float least = std::clamp(0.34f * room.h, 130.0f, 300.0f);  // of what is below
  lanes = {0, 0, room.w, std::min(wanted, legend.y - least - kNote - 2 * kGap - 4)};
  reason = {0, lanes.bottom() + 4, room.w, kNote};
  const float top = reason.bottom() + kGap + 4, low = legend.y - kGap - top;
  const float half = 0.52f * room.w;
  pool = {0, top, half - 2 * kGap, low};
  lookup = {half, top, room.w - half, low};
}

Picture::Picture(const WindowsPage& page, const viz::Room& room)
    : page_(page),
      now_(page.now_),
      before_(page.before_),
      scene_(room),
      areas_(room, wanted(page)) {}

viz::Scene Picture::drawn() {
  draw_lanes();
  draw_pool();
  draw_lookup();
  let_fall();
  viz::reason(scene_, areas_.reason, now_.reason, now_.points_at, {0, 0.15f});
  viz::legend(scene_, areas_.legend,
              {{State::kInUse, "full attention"},
               {State::kReserved, "sliding", 0},
               {State::kFound, "found"},
               {State::kPreempted, "fell out"},
               {State::kCached, "free, can be found"},
               {State::kFree, "free; null block"}});
  scene_.lasts(now_.about.empty() ? 0.45f : 1.6f);
  return std::move(scene_);
}

/// Draws all blocks, whichever group holds them.
void Picture::draw_pool() {
  const Place& at = areas_.pool;
  const int count = page_.settings_.num_blocks;
  scene_.line("floor", 0, at.y - 5, scene_.room().w, at.y - 5, paint(Ink::kLine));
  viz::heading(scene_, "pool", {at.x, at.y, at.w, kHeading},
               fmt::format("one pool for all groups: {} of {} held; {} if no layer forgot",
                           now_.held, kv::count_of(count, "block"), now_.full));
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  const viz::Grid grid = viz::fit(count, room,
                                  {.gap = count > 64 ? 2.0f : 4.0f,
                                   .flattest = 0.9f,
                                   .widest = 2.2f,
                                   .most_w = 110,
                                   .most_h = 56,
                                   .round_to = 4});
  for (int32_t id = 1; id <= count; ++id) {
    const Held& held = now_.blocks.at(static_cast<size_t>(id));
    viz::NumberedBlock block{.id = id, .hues = held.hues};
    if (held.group >= 0) block.badge = page_.group_name(held.group);
    if (!held.hues.empty()) {
      block.state = in_group(held.group);
      block.tooltip = ": held in group " + block.badge;
    } else if (held.can_be_found) {
      block.state = State::kCached;
      block.tooltip = ": free, and what group " + block.badge + " wrote can be found";
    } else {
      block.tooltip = ": free";
    }
    if (held.hues.size() > 1) block.tooltip += fmt::format(" by {} requests", held.hues.size());
    viz::numbered_block(scene_, block, grid.cell(id - 1), held.hues.empty() ? kFalls : kTaken);
  }
}

viz::Scene WindowsPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

void WindowsPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  form(ui, {"new", "New request", "new " + shown_.asked.free_name()});
  if (!shown_.asked.empty()) {
    const std::string name = chosen(shown_.asked);
    const auto append = [&](int count) -> viz::Button {
      return {fmt::format("{}/append {}", name, count), fmt::format("{} +{}", name, count),
              fmt::format("append {} {}", name, count)};
    };
    buttons(ui, {append(1), append(4), append(16)});
    buttons(ui, {{name + "/continue", "Next turn of " + name,
                  fmt::format("continue {} {} \"so go on\"", shown_.asked.free_name(), name)},
                 {name + "/free", "Free " + name, "free " + name}});
  }
  const auto row_of = [](const std::string& verb, std::initializer_list<int> values, int holds) {
    std::vector<viz::Button> row;
    for (const int value : values) {
      const std::string line = fmt::format("{} {}", verb, value);
      row.push_back(viz::Button{line, std::to_string(value), line}.when(value == holds));
    }
    return row;
  };
  choice(ui, "Window in tokens", row_of("window", {4, 8, 16}, settings_.window));
  choice(ui, "Groups with a window", row_of("groups", {1, 2, 3}, settings_.num_sliding));
  const auto pool_of = [&](int blocks) -> viz::Button {
    return viz::Button{fmt::format("pool {}", blocks), std::to_string(blocks),
                       fmt::format("pool {} {}", blocks, settings_.block_size)}
        .when(settings_.num_blocks == blocks);
  };
  choice(ui, "Blocks in the pool", {pool_of(16), pool_of(32), pool_of(64)});
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson10
