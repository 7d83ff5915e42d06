#include "viz/drawing/parts.h"

#include <fmt/format.h>

#include <cmath>

#include "common/error.h"
#include "common/table.h"
#include "viz/drawing/palette.h"
#include "viz/drawing/text_room.h"

namespace viz {
namespace {

constexpr float kLeastSlot = 15;  // points: smaller slots are not drawn one by one

std::string names_of(const std::vector<SequenceView>& sequences, const std::vector<int>& owners) {
  std::vector<std::string> names;
  for (const int owner : owners) {
    const auto found = std::ranges::find(sequences, owner, &SequenceView::hue);
    names.push_back(found == sequences.end() ? "?" : found->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

State state_of(const BlockView& block) {
  if (block.state) return *block.state;
  return block.ref_cnt > 0 ? State::kInUse : State::kFree;
}

/// Of several fills side by side each leaves a gap to the next.
float apart(float length) { return std::max(length - 1, 0.8f * length); }

/// The owners' hues side by side, from the bottom up to `level` of the place.
void fill_block(Scene& scene, const BlockView& block, const Place& at, float level) {
  if (at.h <= 0) return;
  const float w = at.w / static_cast<float>(std::max<size_t>(block.owners.size(), 1));
  for (size_t i = 0; i < block.owners.size(); ++i) {
    const Place part{at.x + w * static_cast<float>(i), at.bottom() - at.h * level,
                     i + 1 < block.owners.size() ? apart(w) : w, at.h * level};
    scene.box(fmt::format("block {}/fill {}", block.id, i), part, soft(block.owners[i])).radius = 2;
  }
}

/// A slot that several sequences hold has a band of each one's hue.
void draw_bands(Scene& scene, const std::string& id, const Place& at,
                const std::vector<int>& owners) {
  const auto count = std::min(owners.size(), kHues.size());  // then they begin again
  const float h = at.h / static_cast<float>(count);
  for (size_t i = 0; i < count; ++i) {
    // A wider gap would strike out a word that stands across two bands.
    const Place band{at.x, at.y + h * static_cast<float>(i), at.w, h - 0.2f};
    scene.box(fmt::format("{}/hue {}", id, owners[i]), band, soft(owners[i])).radius = 0;
  }
}

void draw_slots(Scene& scene, const PoolView& pool, const BlockView& block, const Grid& grid) {
  const bool one_hue = block.owners.size() == 1, shared = block.owners.size() > 1;
  for (int i = 0; i < pool.block_size; ++i) {
    const Place at = grid.cell(i);
    const std::string id = fmt::format("slot {}/{}", block.id, i);
    const bool filled = i < block.filled;
    const Paint fill = !filled   ? paint(Ink::kCell)
                       : one_hue ? soft(block.owners[0])
                                 : paint(shared ? Ink::kGround : Ink::kCell);
    Shape& slot = scene.box(id, at, fill, paint(Ink::kLine, 0.6f));
    slot.radius = 2;
    slot.thickness = 1;
    if (filled && shared) draw_bands(scene, id, at.inset(1), block.owners);
    // A text that was cut would look like its neighbour's.
    const bool has_text = static_cast<size_t>(i) < block.tokens.size();
    if (has_text &&
        text_width(block.tokens[static_cast<size_t>(i)], readable(scene.room(), 6)) <= at.w - 2) {
      const float size = std::min(std::max(13.0f, 0.36f * at.h), 0.62f * at.h);
      scene.label(id + "/token", at.inset(1), block.tokens[static_cast<size_t>(i)],
                  {.size = size, .align = Align::kCentre}, 6);
    }
  }
}

/// Block numbers as runs: "4-35, 40".
std::vector<std::string> runs_of(const std::vector<int32_t>& ids) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    runs.push_back(end - i == 1 ? std::to_string(ids[i])
                                : fmt::format("{} to {}", ids[i], ids[end - 1]));
    i = end;
  }
  return runs;
}

}  // namespace

Place Grid::cell(int index) const {
  const auto column = static_cast<float>(index % columns),
             row = static_cast<float>(index / columns);
  return {area.x + column * (w + gap), area.y + row * (h + gap), w, h};
}

Grid fit(int count, const Place& room, const CellShape& shape) {
  Grid best;
  count = std::max(count, 1);
  for (int columns = 1; columns <= count; ++columns) {
    const bool even = columns % shape.round_to == 0 || count % columns == 0;
    if (columns > shape.round_to && !even) continue;
    if (shape.full_rows && count % columns != 0) continue;
    const auto c = static_cast<float>(columns);
    const auto rows = static_cast<float>((count + columns - 1) / columns);
    Grid grid{.columns = columns, .gap = shape.gap};
    grid.w = std::min((room.w - shape.gap * (c - 1)) / c, shape.most_w);
    grid.h = std::min((room.h - shape.gap * (rows - 1)) / rows, shape.most_h);
    if (grid.w <= 0 || grid.h <= 0) continue;
    grid.w = std::min(grid.w, grid.h * shape.widest);
    grid.h = std::min(grid.h, grid.w / shape.flattest);
    grid.area = {room.x, room.y, c * (grid.w + shape.gap) - shape.gap,
                 rows * (grid.h + shape.gap) - shape.gap};
    if (grid.w * grid.h >= best.w * best.h)
      best = grid;  // of two equal grids, the one with fewer rows
  }
  return best;
}

/// Slots in one or more rows, so that they are as square as it goes; a few stand below one another.
/// They are at least `flattest` times as wide as tall, and fill the place: room that is left beside
/// them would look like room for tokens.
Grid slots_in(const Place& at, int count, float flattest) {
  const bool few = count <= 4;
  Grid grid = fit(count, at,
                  {.gap = 2,
                   .flattest = flattest,
                   .widest = few ? 10.0f : 3.2f,
                   .most_h = few ? 60.0f : 48.0f,
                   .round_to = 4,
                   .full_rows = true});
  if (grid.w <= 0) return grid;  // no room
  const auto columns = static_cast<float>(grid.columns);
  const auto rows = static_cast<float>(count / grid.columns);
  grid.w = (at.w - grid.gap * (columns - 1)) / columns;
  grid.h = std::min((at.h - grid.gap * (rows - 1)) / rows, grid.w / flattest);
  grid.area.w = at.w;
  grid.area.h = rows * (grid.h + grid.gap) - grid.gap;
  return grid;
}

TableView PoolView::add(const SequenceView& sequence, std::span<const int32_t> block_ids,
                        int num_tokens) {
  TableView table{.sequence = sequence,
                  .block_ids = {block_ids.begin(), block_ids.end()},
                  .num_tokens = num_tokens,
                  .block_size = block_size};
  for (const int32_t id : block_ids) {
    BlockView& block = at(id);
    // Once, though a cache that trusts hashes may give one block for two places.
    if (!std::ranges::count(block.owners, sequence.hue)) block.owners.push_back(sequence.hue);
    block.filled = std::max(block.filled, std::min(num_tokens, block_size));
    num_tokens -= block_size;
    table.ref_cnts.push_back(block.ref_cnt);
  }
  sequences.push_back(sequence);
  return table;
}

std::string described(const PoolView& pool, const BlockView& block) {
  std::string text = fmt::format("block {}", block.id);
  if (block.ref_cnt == 0) {
    text += "\nfree: no table holds it";
  } else {
    text += fmt::format("\nheld by {} (reference count {})\n{} of {} filled",
                        names_of(pool.sequences, block.owners), block.ref_cnt, block.filled,
                        kv::count_of(pool.block_size, "slot"));
  }
  const int64_t first = int64_t{block.id} * pool.block_size;
  text += fmt::format("\nslots {} to {}", first, first + pool.block_size - 1);
  for (const std::string& token : block.tokens) text += "\n" + token;
  return text;
}

void block(Scene& scene, const PoolView& pool, const BlockView& block, const Place& at) {
  const std::string id = fmt::format("block {}", block.id);
  const bool labelled = at.w >= 30 && at.h >= 24;
  Shape& frame = scene.box(id, at, {});
  dress(frame, state_of(block), block.owners.size() == 1 ? block.owners[0] : -1);
  frame.fill = paint(block.ref_cnt > 0 ? Ink::kPanel : Ink::kNone);
  if (block.changed) frame.edged(paint(Ink::kMark), 2.5f);
  frame.radius = std::min(5.0f, at.h / 6);
  frame.tip(described(pool, block));

  const Place inside = at.inset(labelled ? 5 : 2);
  const float head = labelled ? std::clamp(0.2f * at.h, 17.0f, 28.0f) : 0;
  const Place body{inside.x, inside.y + head, inside.w, inside.h - head};
  const float flattest = scene.room().w <= kTextWidth ? 1.6f : 0.9f;  // words are wide
  const Grid slots = slots_in(body, pool.block_size, flattest);
  if (std::min(slots.w, slots.h) >= kLeastSlot) {
    draw_slots(scene, pool, block, slots);
  } else if (pool.block_size > 0) {
    fill_block(scene, block, labelled ? body : inside,
               static_cast<float>(block.filled) / static_cast<float>(pool.block_size));
  }
  if (!labelled) return;
  const float size = 0.7f * head;
  const Type type{.size = size, .paint = {block.ref_cnt > 0 ? Ink::kText : Ink::kDim}};
  const bool has_ref = block.ref_cnt > 0 && pool.show_refs;
  const Place title{inside.x, inside.y, has_ref ? inside.w / 2 : inside.w, head - 3};
  scene.label(id + "/id", title, glyph(state_of(block)) + std::to_string(block.id), type);
  if (has_ref) {
    scene.label(id + "/ref", {inside.middle_x(), title.y, title.w, title.h},
                fmt::format("\u00D7{}", block.ref_cnt),
                {.size = size, .paint = {Ink::kText}, .align = Align::kRight});
  }
  if (!block.badge.empty() && at.h >= 40) {
    scene.label(id + "/badge", {inside.x, inside.bottom() - 14, inside.w, 14}, block.badge,
                {.size = 11, .paint = {Ink::kText}});
  }
}

Grid pool(Scene& scene, const PoolView& view, const Place& room) {
  const auto count = static_cast<int>(view.blocks.size());
  const Grid grid = fit(count, room,
                        {.gap = count > 256 ? 2.0f : 6.0f,
                         .flattest = 1,
                         .widest = view.block_size <= 4 ? 3.0f : 2.0f,
                         .round_to = 4});
  for (int i = 0; i < count; ++i) {
    block(scene, view, view.blocks[static_cast<size_t>(i)], grid.cell(i));
  }
  return grid;
}

float table(Scene& scene, const TableView& view, const Place& at) {
  const std::string& name = view.sequence.name;
  const float h = std::min(at.h, 30.0f),
              left = std::clamp(text_width(name, 13) + 18, 34.0f, 130.0f);
  scene.box(name + "/bar", {at.x, at.y, 4, h}, full(view.sequence.hue)).radius = 2;
  scene.label(name + "/name", {at.x + 10, at.y, left - 14, h}, name);
  const Place row{at.x + left, at.y, at.w - left, h};
  const auto count = static_cast<float>(view.block_ids.size());
  const float w = std::min(44.0f, (row.w + 4) / std::max(count, 1.0f) - 4);
  if (w < 24) {
    scene.label(name + "/runs", row, fmt::format("{}", fmt::join(runs_of(view.block_ids), ", ")));
    return h;
  }
  for (size_t i = 0; i < view.block_ids.size(); ++i) {
    const std::string id = fmt::format("{}/entry {}", name, i);
    const Place entry{row.x + static_cast<float>(i) * (w + 4), row.y, w, h};
    const int filled =
        std::min(view.block_size, view.num_tokens - static_cast<int>(i) * view.block_size);
    Shape& box = scene.box(id, entry, soft(view.sequence.hue), full(view.sequence.hue));
    box.lighting({fmt::format("block {}", view.block_ids[i])});
    box.tip(fmt::format("{}, table entry {}: block {}, {} of {} filled", name, i, view.block_ids[i],
                        filled, kv::count_of(view.block_size, "slot")));
    scene.label(id + "/id", entry, std::to_string(view.block_ids[i]), {.align = Align::kCentre});
  }
  return h;
}

float chips(Scene& scene, const std::string& id, const Place& at, const std::vector<Chip>& chips,
            float least) {
  const float size = roomy(scene.room(), least), h = 1.7f * size, gap = 3;
  const auto width = [&](const Chip& chip) {
    return std::min(std::max(text_width(chip.text, size) + 8, 14.0f), at.w);
  };
  // From the last one back: how many lines there are room for.
  const int lines = std::max(1, static_cast<int>((at.h + gap) / (h + gap)));
  size_t first = chips.size();
  float x = 0;
  for (int line = 1; first > 0; --first) {
    const float w = width(chips[first - 1]);
    if (x > 0 && x + w > at.w && ++line > lines) break;
    x = x > 0 && x + w > at.w ? w + gap : x + w + gap;
  }
  x = at.x;
  float y = at.y;
  for (size_t i = first; i < chips.size(); ++i) {
    const float w = width(chips[i]);
    if (x > at.x && x + w > at.right() + 0.5f && y + 2 * h + gap <= at.bottom() + 0.5f) {
      x = at.x;
      y += h + gap;
    }
    const std::string name = fmt::format("{} {}", id, i);
    Shape& box = dress(scene.box(name, {x, y, w, h}, {}), chips[i].state, chips[i].hue);
    box.tip(chips[i].tooltip).radius = 3;
    scene.label(name + "/token", {x, y, w, h}, chips[i].text,
                {.size = size, .align = Align::kCentre});
    x += w + gap;
  }
  return y + h - at.y;
}

Place note(Scene& scene, const std::string& id, const Place& at, const std::string& text,
           const std::string& points_at, Ink ink, Span when) {
  constexpr float kPad = 9;
  const float size = roomy(scene.room(), 13);
  const std::vector<std::string> lines = wrapped(text, size, at.w - 2 * kPad);
  float wide = 0;
  for (const std::string& words : lines) wide = std::max(wide, text_width(words, size));
  const Place bubble{at.x, at.y, wide + 2 * kPad,
                     1.4f * size * static_cast<float>(lines.size()) + 2 * kPad - 4};
  if (const Shape* target = points_at.empty() ? nullptr : scene.find(points_at)) {
    const Place to = target->at;
    const bool below = to.y > bubble.bottom();
    const float x = std::clamp(to.middle_x(), bubble.x + kPad, bubble.right() - kPad);
    const float y = below ? bubble.bottom() : to.bottom() < bubble.y ? bubble.y : bubble.middle_y();
    const bool beside = !below && to.bottom() >= bubble.y;
    const float from = beside ? (to.x > bubble.x ? bubble.right() : bubble.x) : x;
    const float end_x = beside ? (to.x > bubble.x ? to.x : to.right()) : to.middle_x();
    const float end_y = below ? to.y : beside ? to.middle_y() : to.bottom();
    scene.line(id + "/arrow", from, y, end_x, end_y, paint(ink)).pointing().during(when).on_top();
  }
  scene.box(id, bubble, paint(Ink::kPanel), paint(ink)).during(when).on_top().radius = 8;
  for (size_t i = 0; i < lines.size(); ++i) {
    const float y = bubble.y + kPad - 2 + 1.4f * size * static_cast<float>(i);
    scene
        .label(fmt::format("{}/text {}", id, i), {bubble.x + kPad, y, wide + 1, 1.4f * size},
               lines[i], {.size = size})
        .during(when)
        .on_top();
  }
  return bubble;
}

Scene empty_scene(const Room& room, std::string_view words) {
  Scene scene(room);
  if (is_in_text(room)) return scene;
  scene.box("empty/panel", {1, 1, room.w - 2, room.h - 2}, paint(Ink::kPanel)).radius = 8;
  scene.paragraph("empty", {24, 0.4f * room.h, room.w - 48, 60}, words,
                  {.size = 16, .paint = {Ink::kDim}});
  return scene;
}

void heading(Scene& scene, const std::string& id, const Place& at, const std::string& text) {
  scene.label(id, at, text, {.size = 14, .paint = {Ink::kDim}});
}

void count_up(Scene& scene, const std::string& id, const Place& at, int64_t from, int64_t to,
              const Type& type, Span when) {
  constexpr int64_t kMostSteps = 12;
  constexpr float kBlink = 0.001f;
  const auto id_of = [&](int64_t value) { return fmt::format("{} {}", id, value); };
  const int64_t steps = std::min(std::abs(to - from), kMostSteps);
  const float step = (when.end - when.begin) / static_cast<float>(std::max<int64_t>(steps, 1));
  for (int64_t i = 1; i < steps; ++i) {
    Scene number(scene.room());
    const int64_t value = from + (to - from) * i / steps;
    const float begin = when.begin + static_cast<float>(i - 1) * step;
    scene.ghost(number.label(id_of(value), at, kv::with_commas(value), type), at,
                {begin, begin + step});
  }
  const float first = steps > 1 ? when.begin : when.end - kBlink;
  const float last = steps > 1 ? when.end - step : first;
  if (from != to) scene.leaves(id_of(from), at, {first, first + kBlink});
  scene.label(id_of(to), at, kv::with_commas(to), type).during({last, last + kBlink});
}

void level(Scene& scene, const std::string& id, const Place& at, float part, Paint fill) {
  scene.box(id, at, paint(Ink::kCell), paint(Ink::kLine));
  scene.box(id + "/fill", {at.x, at.y, at.w * std::clamp(part, 0.0f, 1.0f), at.h}, fill);
}

}  // namespace viz
