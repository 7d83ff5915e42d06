#include "page_picture.h"
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
  const float bars_h = std::clamp(0.26f * low, 58.0f, 84.0f);
  bars = {0, top + low - bars_h, half - 2 * kGap, bars_h};
  pool = {0, top, bars.w, bars.y - kGap - top};
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
  draw_bars();
  draw_lookup();
  let_fall();
  draw_reason();
  draw_legend();
  scene_.lasts(now_.about.empty() ? 0.45f : 1.6f);
  return std::move(scene_);
}

/// All blocks, whichever group holds them.
void Picture::draw_pool() {
  const Place& at = areas_.pool;
  const int count = page_.settings_.num_blocks;
  scene_.line("floor", 0, at.y - 5, scene_.room().w, at.y - 5, paint(Ink::kLine));
  viz::heading(scene_, "pool", {at.x, at.y, at.w, kHeading},
               fmt::format("one pool for all groups: {} of {}", kv::count_of(count, "block"),
                           kv::count_of(block_size(), "token")));
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  const viz::Grid grid = viz::fit(count, room,
                                  {.gap = count > 64 ? 2.0f : 4.0f,
                                   .flattest = 0.9f,
                                   .widest = 2.2f,
                                   .most_w = 110,
                                   .most_h = 56,
                                   .round_to = 4});
  for (int32_t id = 1; id <= count; ++id) cell(id, grid.cell(id - 1));
}

void Picture::cell(int32_t id, const Place& at) {
  const std::string name = fmt::format("block {}", id);
  const Held& block = now_.blocks.at(static_cast<size_t>(id));
  const std::string group = block.group < 0 ? "" : page_.group_name(block.group);
  std::string tip = name;
  const auto count = block.hues.size();
  viz::Shape& box = scene_.box(name, at, {});
  box.radius = std::min(4.0f, at.h / 5);
  if (count == 0) {
    dress(box, block.can_be_found ? State::kCached : State::kFree);
    tip +=
        block.can_be_found ? ": free, and what group " + group + " wrote can be found" : ": free";
  } else if (count == 1) {
    dress(box, in_group(block.group), block.hues[0]);
  } else {
    box.fill = paint(Ink::kPanel);
    box.edged(paint(Ink::kText), 1.2f);
  }
  if (count > 0) tip += ": held in group " + group;
  if (count > 1) tip += fmt::format(" by {} requests", count);
  box.tip(tip).during(count > 0 ? kTaken : kFalls);
  const float part = (at.w - 2) / static_cast<float>(std::max<size_t>(count, 1));
  for (size_t i = 0; i < count && count > 1; ++i) {
    const Place band{at.x + 1 + part * static_cast<float>(i), at.y + 1, part - 0.5f, at.h - 2};
    dress(scene_.box(fmt::format("{}/hue {}", name, block.hues[i]), band, {}),
          in_group(block.group), block.hues[i])
        .edged({})
        .during(kTaken)
        .radius = 0;
  }
  if (at.w < 15 || at.h < 11) return;
  const bool labelled = at.h >= 30 && at.w >= 44 && !group.empty();
  const Place number{at.x, at.y + (labelled ? 2 : 0), at.w, labelled ? at.h / 2 : at.h};
  scene_.label(name + "/id", number, std::to_string(id),
               {.size = std::min(13.0f, 0.6f * at.h),
                .paint = {count == 0 && !block.can_be_found ? Ink::kDim : Ink::kText},
                .align = Align::kCentre},
               6);
  if (!labelled) return;
  scene_
      .label(name + "/group", {at.x + 2, at.middle_y(), at.w - 4, at.h / 2 - 2}, group,
             {.size = 10, .align = Align::kCentre}, 7)
      .during(kTaken);
}

void Picture::draw_reason() {
  if (now_.reason.empty()) return;
  Place at = areas_.reason;
  const float wide = viz::text_width(now_.reason, 13) + 20;
  const viz::Shape* const target = scene_.find(now_.points_at);
  const bool clear =
      target != nullptr && std::ranges::none_of(scene_.shapes(), [&](const viz::Shape& shape) {
        const float x = target->at.middle_x();
        return shape.kind == viz::Shape::Kind::kBox && shape.at.y > target->at.bottom() &&
               shape.at.bottom() < at.y && shape.at.x <= x && x <= shape.at.right();
      });
  const float middle = clear ? target->at.middle_x() : 0;
  at.x = std::max(0.0f, std::min(middle - wide / 2, at.w - wide));
  at.w -= at.x;
  viz::note(scene_, "note", at, now_.reason, clear ? now_.points_at : "", Ink::kMark, {0, 0.15f});
}

void Picture::draw_legend() {
  viz::legend(scene_, areas_.legend,
              {{State::kInUse, "full attention"},
               {State::kReserved, "sliding"},
               {State::kFound, "found"},
               {State::kPreempted, "fell out"},
               {State::kCached, "free, can be found"},
               {State::kFree, "free; null block"}});
}

viz::Scene WindowsPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

void WindowsPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  form(ui, {"new", "New request", "new " + shown_.asked.free_name()});
  if (!shown_.asked.empty()) {
    const bool there = shown_.asked.find(selected()) != nullptr;
    const std::string name = there ? selected() : shown_.asked.names().back();
    std::vector<viz::Button> row;
    for (const int count : {1, 4, 16}) {
      row.push_back({fmt::format("{}/append {}", name, count), fmt::format("{} +{}", name, count),
                     fmt::format("append {} {}", name, count)});
    }
    buttons(ui, row);
    buttons(ui, {{name + "/continue", "Next turn of " + name,
                  fmt::format("continue {} {} \"so go on\"", shown_.asked.free_name(), name)},
                 {name + "/free", "Free " + name, "free " + name}});
  }
  std::vector<viz::Button> row;
  for (const int keys : {4, 8, 16}) {
    row.push_back({fmt::format("window {}", keys), fmt::format("Window {}", keys),
                   fmt::format("window {}", keys)});
  }
  buttons(ui, row);
  row.clear();
  for (const int count : {1, 2, 3}) {
    row.push_back({fmt::format("groups {}", count), fmt::format("{} sliding", count),
                   fmt::format("groups {}", count)});
  }
  buttons(ui, row);
  row.clear();
  for (const int blocks : {16, 32, 64}) {
    row.push_back({fmt::format("pool {}", blocks), fmt::format("{} blocks", blocks),
                   fmt::format("pool {} {}", blocks, settings_.block_size)});
  }
  buttons(ui, row);
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson10
