#include "page_picture.h"

namespace lesson10 {
namespace {

constexpr float kResult = 84;  // width of what a row comes to

/// Where the number of tokens stands: after the last block.
float result_x(const Lookup& lookup, const Place& row, float cell) {
  return row.x + kGroupName + cell * static_cast<float>(lookup.num_blocks) + 8;
}

}  // namespace

/// What each group had of the prompt that came last, and how much of it they agreed on.
void Picture::draw_lookup() {
  const Place& at = areas_.lookup;
  const Lookup& lookup = now_.lookup;
  const bool is_live = page_.live_.running();
  viz::heading(scene_, "lookup", {at.x, at.y, at.w, kHeading},
               is_live ? "what the engine's tokens say"
               : lookup.name.empty()
                   ? "no lookup yet"
                   : fmt::format("what each group has of {}'s prompt", lookup.name));
  if (is_live) return draw_text({at.x, at.y + kHeading + 4, at.w, at.h - kHeading - 4});
  if (lookup.name.empty()) return;
  if (lookup.num_blocks == 0) {
    scene_.label("lookup/none", {at.x, at.y + kHeading, at.w, 20},
                 "it is too short: only full blocks are found", {.size = 12, .paint = {Ink::kDim}});
    return;
  }
  const auto rows = static_cast<float>(num_groups() + 1);
  const float pitch = std::min((at.h - kHeading - 2) / rows, 42.0f);
  const float cell =
      std::min((at.w - kGroupName - kResult) / static_cast<float>(lookup.num_blocks), 1.6f * pitch);
  float y = at.y + kHeading + 2;
  for (int group = 0; group < num_groups(); ++group) {
    lookup_row(group, {at.x, y, at.w, pitch - 4}, cell);
    y += pitch;
  }
  lookup_result({at.x, y, at.w, pitch - 4}, cell);
}

/// Of a live run, whose tokens have no room in their cells.
void Picture::draw_text(const Place& at) {
  for (const Asked& asked : now_.asked) {
    std::vector<viz::Chip> words;
    for (const int32_t token : asked.tokens) {
      words.push_back({.text = page_.word(token), .hue = asked.hue});
    }
    viz::chips(scene_, asked.name + "/said", at, words, 12);
  }
}

void Picture::lookup_row(int group, const Place& at, float cell) {
  const Lookup& lookup = now_.lookup;
  const auto g = static_cast<size_t>(group);
  const std::string row = fmt::format("lookup/{}", group);
  scene_.label(row + "/name", {at.x, at.y, kGroupName - 6, at.h}, page_.group_name(group),
               {.size = 13}, 7);
  for (int i = 0; i < lookup.num_blocks; ++i) {
    const auto block = static_cast<size_t>(i);
    const bool used = i < lookup.num_hit && lookup.used[g][block] != BlockPool::kNullBlock;
    const bool has = lookup.has[g][block];
    viz::Shape& box = scene_.box(
        fmt::format("{}/block {}", row, i),
        {at.x + kGroupName + cell * static_cast<float>(i), at.y, std::max(cell - 3, 1.0f), at.h},
        {});
    dress(box, used ? State::kFound : has ? State::kCached : State::kFree, used ? lookup.hue : -1);
    box.during(kFound).radius = std::min(3.0f, at.h / 4);
    box.thickness = std::min(box.thickness, cell / 5);
    box.tip(fmt::format("tokens {} to {}: {}", i * block_size(), (i + 1) * block_size() - 1,
                        used  ? fmt::format("block {} is used", lookup.used[g][block])
                        : has ? "there, and not needed"
                              : "not there"));
  }
  scene_.label(row + "/alone", {result_x(lookup, at, cell), at.y, kResult - 8, at.h},
               kv::count_of(int64_t{lookup.alone[g]} * block_size(), "token"), {.size = 13});
}

/// The prefix that all of them have what they need of.
void Picture::lookup_result(const Place& at, float cell) {
  const Lookup& lookup = now_.lookup;
  scene_.label("lookup/all/name", {at.x, at.y, kGroupName - 6, at.h}, "all", {.size = 13}, 7);
  if (lookup.num_hit > 0) {
    const float wide = cell * static_cast<float>(lookup.num_hit) - 3;
    scene_
        .box("lookup/all", {at.x + kGroupName, at.y, wide, at.h}, soft(lookup.hue),
             full(lookup.hue))
        .during(kFound)
        .radius = 3;
  }
  scene_.label("lookup/all/hit", {result_x(lookup, at, cell), at.y, kResult - 8, at.h},
               kv::count_of(int64_t{lookup.num_hit} * block_size(), "token"), {.size = 13});
}

/// Blocks that are held, and what they would be if all layers had full attention.
void Picture::draw_bars() {
  const Place& at = areas_.bars;
  viz::heading(scene_, "bars", {at.x, at.y, at.w, kHeading}, "blocks held, and if no layer forgot");
  const float h = (at.h - kHeading - 2) / 2;
  bar("held", "held", {at.x, at.y + kHeading + 2, at.w, h - 3}, false);
  bar("full", "if full", {at.x, at.y + kHeading + 2 + h, at.w, h - 3}, true);
}

/// A part for each request and group, so wide as it has blocks. A shared one counts for whoever
/// came first.
void Picture::bar(const std::string& id, const std::string& name, const Place& at, bool all_full) {
  constexpr float kName = 50, kCount = 40;
  scene_.label(id + "/name", {at.x, at.y, kName, at.h}, name, {.size = 12}, 7);
  const int most = std::max({now_.full, now_.held, 16});
  const float each = (at.w - kName - kCount) / static_cast<float>(most);
  float x = at.x + kName;
  std::vector<bool> counted(now_.blocks.size());
  for (const Asked& asked : now_.asked) {
    for (int group = 0; group < (all_full ? 1 : num_groups()); ++group) {
      int blocks = 0;
      for (const int32_t block : asked.tables[static_cast<size_t>(group)]) {
        if (block == BlockPool::kNullBlock || counted[static_cast<size_t>(block)]) continue;
        counted[static_cast<size_t>(block)] = true;
        ++blocks;
      }
      if (all_full) blocks *= num_groups();
      if (blocks == 0) continue;
      const float w = each * static_cast<float>(blocks);
      viz::Shape& part = scene_.box(fmt::format("{}/{}/{}", id, asked.name, group),
                                    {x, at.y, std::max(w - 2, 1.0f), at.h}, {});
      dress(part, in_group(group), asked.hue).radius = 2;
      if (w < 6) part.pattern = viz::Pattern::kPlain;  // too narrow for lines
      part.tip(fmt::format("{}, {}: {}", asked.name, page_.group_name(group),
                           kv::count_of(blocks, "block")));
      x += w;
    }
  }
  scene_.label(id + "/count", {at.right() - kCount, at.y, kCount, at.h},
               std::to_string(all_full ? now_.full : now_.held),
               {.size = 13, .align = Align::kRight});
}

}  // namespace lesson10
