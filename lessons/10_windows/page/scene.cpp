#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"
#include "viz/ui.h"
#include "windows.h"

namespace lesson10 {

using viz::Ink;
using viz::kHeading;
using viz::Place;
using viz::State;

/// The group that holds the block or wrote it, and whether it is free, or taken again; without that
/// where the room is narrow.
std::string WindowsPage::badge_of(const Held& held, const viz::Room& room, float width) const {
  if (held.group < 0) return "";
  const std::string group = group_name(held.group);
  const char* const more = held.hues.empty() ? ", free" : held.times_taken > 1 ? ", again" : "";
  return viz::text_width(group + more, viz::readable(room, 10)) <= width - 4 ? group + more : group;
}

/// Draws all blocks, whichever group holds them.
void WindowsPage::draw_pool(viz::Scene& scene, const Place& at) const {
  const int count = settings_.num_blocks;
  scene.line("floor", 0, at.y - 5, scene.room().w, at.y - 5, viz::paint(Ink::kLine));
  viz::heading(scene, "pool", {at.x, at.y, at.w, kHeading},
               fmt::format("{}{} of {} held; {} if no layer forgot",
                           scene.room().w <= viz::kTextWidth ? "" : "one pool for all groups: ",
                           now_.held, kv::count_of(count, "block"), now_.full));
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  const viz::Grid grid = viz::fit(count, room,
                                  {.gap = count > 64 ? 2.0f : 4.0f,
                                   .flattest = 0.9f,
                                   .widest = 2.2f,
                                   .most_w = 300,
                                   .most_h = 160,
                                   .round_to = 4});
  for (int32_t id = 1; id <= count; ++id) {
    const Held& held = now_.blocks.at(id);
    const bool is_free = held.hues.empty();
    viz::NumberedBlock block{.id = id, .hues = held.hues};
    const Place cell = grid.cell(id - 1);
    block.badge = badge_of(held, scene.room(), cell.w);
    if (!is_free) block.state = in_group(held.group);
    if (is_free && held.can_be_found) block.state = State::kCached;
    viz::numbered_block(scene, block, cell, is_free ? kFalls : kTaken);
  }
}

/// Draws what each group had of the last prompt, and the prefix that they agreed on; of a live run
/// its text.
void WindowsPage::draw_lookup(viz::Scene& scene, const Place& at) const {
  const Lookup& lookup = now_.lookup;
  std::string title = fmt::format("what each group has of {}'s prompt", lookup.request.name);
  if (lookup.num_blocks == 0)
    title = lookup.request.name + "'s prompt is too short: only full blocks are found";
  if (live_.running()) title = "what the engine's tokens say";
  viz::heading(scene, "lookup", {at.x, at.y, at.w, kHeading}, title);
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  if (live_.running() && !now_.asked.empty()) {
    const Asked& asked = *now_.asked.begin();
    const auto said = [&](int32_t token) { return word(token); };
    viz::words(scene, "said", room, asked.tokens, said, asked.hue, 12);
  }
  if (live_.running() || lookup.num_blocks == 0) return;
  const int num_groups = manager().num_groups();
  const float pitch = std::min(room.h / static_cast<float>(num_groups + 1), 80.0f);
  const float beside = kGroupName + kResult, count = static_cast<float>(lookup.num_blocks);
  const float cell = std::min((at.w - beside) / count, 1.6f * pitch);
  Place row{room.x, room.y, beside + cell * count, pitch - 4};
  for (int group = 0; group <= num_groups; ++group) {
    viz::bar(scene, lookup_row(group), row, lookup.num_blocks, kFound);
    row.y += pitch;
  }
}

/// A part for each full block of the prompt that a group has. After the groups comes the prefix
/// that all agreed on.
viz::Bar WindowsPage::lookup_row(int group) const {
  const Lookup& lookup = now_.lookup;
  const bool is_all = group == manager().num_groups();
  const size_t g = group;
  const int64_t blocks = is_all ? lookup.num_hit : lookup.alone[g];
  viz::Bar row{.id = is_all ? "lookup/all" : fmt::format("lookup/{}", group),
               .name = is_all ? "all" : group_name(group),
               .total = kv::count_of(blocks * settings_.block_size, "token"),
               .name_width = kGroupName,
               .total_width = kResult};
  if (is_all) row.parts = {{.id = row.id, .size = blocks, .hue = lookup.request.hue}};
  for (size_t i = 0; !is_all && i < lookup.blocks[g].size(); ++i) {
    const State state = lookup.blocks[g][i];
    row.parts.push_back({.id = fmt::format("{}/block {}", row.id, i),
                         .size = 1,
                         .state = state,
                         .hue = state == State::kFound ? lookup.request.hue : -1});
  }
  return row;
}

/// Blocks that left a table travel to where they are in the pool.
void WindowsPage::let_fall(viz::Scene& scene) const {
  for (const Asked& was : before_.asked) {
    const Asked* const now = now_.asked.find(was.name);
    for (size_t group = 0; group < was.tables.size(); ++group) {
      viz::leave_table(scene, fmt::format("{}/{}", was.name, group), was.tables[group],
                       now != nullptr ? now->tables[group] : std::vector<int32_t>(), kFalls);
    }
  }
}

viz::Scene WindowsPage::scene(const viz::Room& room) {
  constexpr float kGap = 8;
  viz::Scene scene(room);
  const bool narrow = viz::is_narrow(room);  // what the groups have is below the pool
  const float legend_h = narrow ? 44 : viz::is_in_text(room) ? 44 : 18, note_h = narrow ? 70 : 34;
  const Place legend{0, room.h - legend_h, room.w, legend_h};
  const float least = std::clamp(0.34f * room.h, 130.0f, 300.0f);  // of what is below
  const Place lanes{0, 0, room.w,
                    std::min(lanes_height(manager().num_groups(), now_.asked.size()),
                             legend.y - least - note_h - 2 * kGap - 4)};
  const Place note{0, lanes.bottom() + 4, room.w, note_h};
  const float top = note.bottom() + kGap + 4, low = legend.y - kGap - top, half = 0.52f * room.w;
  draw_lanes(scene, *this, lanes);
  const bool found = std::ranges::any_of(now_.lookup.alone, [](int64_t n) { return n > 0; });
  const bool too_short = !now_.lookup.request.name.empty() && now_.lookup.num_blocks == 0;
  const bool has_lookup = live_.running() || found || (too_short && !viz::is_in_text(room));
  Place pool{0, top, room.w, low}, lookup{half, top, room.w - half, low};
  if (has_lookup && narrow) pool.h = 0.55f * low;
  if (has_lookup && !narrow) pool.w = half - 2 * kGap;
  if (narrow) lookup = {0, pool.bottom() + kGap, room.w, low - pool.h - kGap};
  draw_pool(scene, pool);
  if (has_lookup) draw_lookup(scene, lookup);
  let_fall(scene);
  viz::reason(scene, note, now_.reason, now_.points_at, {0, 0.15f});
  viz::legend(scene, legend,
              {{State::kInUse, "full attention"},
               {State::kSliding, "sliding"},
               {State::kPreempted, "leaves next"},
               {State::kCached, "free, can be found", viz::kNoHue},
               {State::kFound, "found"},
               {State::kFree, "free; null block"}});
  scene.lasts(now_.reason.empty() ? 0.45f : 1.6f);
  return scene;
}

/// A request grows beyond its window, goes on in another turn, and ends.
std::vector<viz::Button> WindowsPage::actions() const {
  if (live_.running()) return live_.steps();
  const std::string next = shown_.asked.free_name();
  const viz::Command add{.verb = "new", .args = {next, kPrompt}};
  std::vector<viz::Button> row{{"new next", "New", add.text(), "", 'N', shown_.asked.empty()}};
  if (shown_.asked.empty()) return row;
  const std::string name = chosen(shown_.asked);
  const bool full = manager_->pool().num_free() < manager_->num_groups();
  const bool grows = !full && shown_.asked.at(name).num_tokens() < 3 * settings_.window;
  const bool goes_on = !full && !grows && shown_.lookup.num_hit == 0;
  row.push_back(viz::append(name, 1, 'A'));
  row.push_back(viz::append(name, 4, 'B', grows));
  row.push_back(viz::append(name, 16, 'X'));
  row.push_back({name + "/continue", "Go on",
                 fmt::format("continue {} {} \"so go on\"", next, name), "", 'G', goes_on});
  row.push_back({name + "/free", "Free " + name, "free " + name, "", 'E', !grows && !goes_on});
  return row;
}

void WindowsPage::draw(viz::Ui& ui) {
  form(ui, {"new", "New request", "new " + shown_.asked.free_name()});
  choice(ui, "Groups with a window", viz::one_of("groups", {1, 2, 3}));
  choice(ui, "Blocks in the pool",
         viz::one_of("pool", {16, 32, 64}, fmt::format(" {}", settings_.block_size)));
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson10
