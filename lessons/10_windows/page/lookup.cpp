#include "picture.h"

namespace lesson10 {
namespace {

constexpr float kResult = 84;  // width of a row's result

}  // namespace

/// Draws what each group had of the last prompt, and the prefix that they agreed on.
void Picture::draw_lookup() {
  const Place& at = areas_.lookup;
  const Lookup& lookup = now_.lookup;
  const bool is_live = page_.live_.running();
  viz::heading(scene_, "lookup", {at.x, at.y, at.w, kHeading},
               is_live ? "what the engine's tokens say"
               : lookup.name.empty()
                   ? "no lookup yet"
                   : fmt::format("what each group has of {}'s prompt", lookup.name));
  for (const Asked& asked : now_.asked) {
    if (!is_live) break;
    viz::words(
        scene_, asked.name + "/said", {at.x, at.y + kHeading + 4, at.w, at.h - kHeading - 4},
        asked.tokens, [&](int32_t token) { return page_.word(token); }, asked.hue, 12);
  }
  if (is_live || lookup.name.empty()) return;
  if (lookup.num_blocks == 0) {
    scene_.label("lookup/none", {at.x, at.y + kHeading, at.w, 20},
                 "it is too short: only full blocks are found", {.size = 12, .paint = {Ink::kDim}});
    return;
  }
  const auto rows = static_cast<float>(num_groups() + 1);
  const float pitch = std::min((at.h - kHeading - 2) / rows, 42.0f), beside = kGroupName + kResult;
  const auto count = static_cast<float>(lookup.num_blocks);
  const float cell = std::min((at.w - beside) / count, 1.6f * pitch);
  Place row{at.x, at.y + kHeading + 2, beside + cell * count, pitch - 4};
  for (int group = 0; group <= num_groups(); ++group) {
    const bool is_all = group == num_groups();
    viz::bar(scene_, is_all ? lookup_result() : lookup_row(group), row, lookup.num_blocks, kFound);
    row.y += pitch;
  }
}

/// A part for each full block of the prompt.
viz::Bar Picture::lookup_row(int group) const {
  const Lookup& lookup = now_.lookup;
  const auto g = static_cast<size_t>(group);
  viz::Bar row{.id = fmt::format("lookup/{}", group),
               .name = page_.group_name(group),
               .total = kv::count_of(int64_t{lookup.alone[g]} * block_size(), "token"),
               .name_width = kGroupName,
               .total_width = kResult};
  for (int i = 0; i < lookup.num_blocks; ++i) {
    const auto block = static_cast<size_t>(i);
    const bool used = i < lookup.num_hit && lookup.used[g][block] != BlockPool::kNullBlock;
    const bool has = lookup.has[g][block];
    row.parts.push_back(
        {.id = fmt::format("{}/block {}", row.id, i),
         .size = 1,
         .state = used  ? State::kFound
                  : has ? State::kCached
                        : State::kFree,
         .hue = used ? lookup.hue : -1,
         .tooltip = fmt::format("tokens {} to {}: {}", i * block_size(), (i + 1) * block_size() - 1,
                                used  ? fmt::format("block {} is used", lookup.used[g][block])
                                : has ? "there, and not needed"
                                      : "not there")});
  }
  return row;
}

/// The row of the prefix that all groups agreed on.
viz::Bar Picture::lookup_result() const {
  const Lookup& lookup = now_.lookup;
  return {.id = "lookup/all",
          .name = "all",
          .total = kv::count_of(int64_t{lookup.num_hit} * block_size(), "token"),
          .name_width = kGroupName,
          .total_width = kResult,
          .parts = {{.id = "lookup/all", .size = lookup.num_hit, .hue = lookup.hue}}};
}

}  // namespace lesson10
