#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "page_paged.h"
#include "viz/parts.h"

namespace lesson03 {

using viz::Ink;
using viz::Place;
using viz::Shape;
using viz::Span;

namespace {

constexpr int kMostDrops = 48;    // tokens that fall one by one
constexpr int kMostTexts = 2048;  // slots whose tokens are written in them
constexpr int kMostMoves = 512;   // blocks of a pool in which they move one by one

/// The k-th of `count` parts of a span, each `long_` long.
Span staggered(const Span& span, int k, int count, float long_) {
  const float step = (span.end - span.begin - long_) / static_cast<float>(std::max(count - 1, 1));
  const float begin = span.begin + step * static_cast<float>(k);
  return {begin, begin + long_};
}

Place centred(const Place& shape, const Place& at) {
  return {at.middle_x() - shape.w / 2, at.middle_y() - shape.h / 2, shape.w, shape.h};
}

void during(viz::Scene& scene, const std::string& id, const Span& span) {
  if (Shape* shape = scene.find(id)) shape->during(span);
}

std::string block_name(int64_t block) { return fmt::format("block {}", block); }
std::string slot_name(int64_t block, int64_t offset) {
  return fmt::format("slot {}/{}", block, offset);
}

/// A box and its text travel from where they are to the middle of a place.
void send(viz::Scene& scene, const std::string& id, const Place& from, const Place& to,
          const Span& span) {
  for (const std::string& part : {id, id + "/text"}) {
    if (const Shape* shape = scene.find(part)) {
      Shape ghost = *shape;
      ghost.id = fmt::format("{} on its way {:.2f}", part, static_cast<double>(span.begin));
      ghost.at = centred(shape->at, from);
      scene.ghost(ghost, centred(shape->at, to), span);
    }
  }
}

}  // namespace

/// Where a token's way leads in the picture.
struct PagedPage::Way {
  std::string token, entry, block, slot;  // shapes; that of the token may be missing
  std::vector<std::string> lines = {};    // from one to the next
};

viz::Scene PagedPage::scene(const viz::Room& room) {
  viz::Scene scene(room);
  const float unit = std::clamp(std::min(room.w / 900, room.h / 480), 0.7f, 1.7f);
  const float x = 4, w = room.w - 8;  // rings need their room, too
  const std::vector<SequenceOnPage> all = shown();
  draw_cards(scene, {x, 2, w, 46 * unit}, unit, all);
  scene
      .label("why", {x, 50 * unit, w, 22 * unit}, change_.why,
             {.size = 13 * unit, .paint = {change_.refused ? Ink::kError : Ink::kText}}, 8)
      .during({0, 0.12f});
  const float top = 77 * unit, left = x + kLaneName * unit, foot = 22 * unit;
  // The pool stays where it is when sequences come and go.
  const float two = 2 * (2 * kLaneRow + kTokensToTable + kLaneGap) * unit;
  const float many = two / 2 + 14 * static_cast<float>(all.size());
  const Place lanes{x, top, w, std::max({two, many, 0.33f * (room.h - top)})};
  draw_lanes(scene, lanes, unit, all);
  const float pool_y = lanes.bottom() + 26 * unit;
  draw_pool(scene, {left, pool_y, x + w - left, room.h - foot - pool_y}, unit, all);
  viz::legend(
      scene, {left, room.h - 18 * unit, x + w - left, 18 * unit},
      {{viz::State::kInUse, "in a table: its sequence's colour"}, {viz::State::kFree, "free"}});
  for (const SequenceOnPage& sequence : all) connect(scene, sequence);
  if (pointed_) draw_pointed(scene, *std::ranges::find(all, pointed_->name, &SequenceOnPage::name));
  for (const SequenceOnPage& sequence : all) move_new(scene, sequence);
  move_gone(scene);
  scene.lasts(change_.pointed ? 1.5f : !change_.gone.empty() ? 0.9f : 0.5f);
  if (!change_.grown.empty()) scene.lasts(1.2f);
  return scene;
}

/// The three lines of the lesson, with the numbers of the token that is pointed at.
void PagedPage::draw_cards(viz::Scene& scene, const Place& at, float unit,
                           const std::vector<SequenceOnPage>& all) const {
  std::array<std::string, 4> values{"click one", "", "", ""};
  viz::Paint edge = viz::paint(Ink::kLine);
  if (const BlockTable* table = table_of(pointed_)) {
    const int token = pointed_->token, size = table->block_size();
    const int64_t slot = table->slot(token);
    values = {
        fmt::format("{} of {}", token, pointed_->name),
        fmt::format("table[{} / {}] = table[{}] = {}", token, size, token / size, slot / size),
        fmt::format("{} mod {} = {}", token, size, slot % size),
        fmt::format("{} \u00D7 {} + {} = {}", slot / size, size, slot % size, slot)};
    edge = viz::full(std::ranges::find(all, pointed_->name, &SequenceOnPage::name)->hue);
  }
  constexpr std::array<const char*, 4> kHeads{"token t", "block = table[t / size]",
                                              "offset = t mod size",
                                              "slot = block \u00D7 size + offset"};
  constexpr std::array<float, 4> kShares{0.15f, 0.34f, 0.23f, 0.28f};
  constexpr std::array<float, 4> kWhen{0, 0.3f, 0.55f, 0.75f};
  float x = at.x;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string id = fmt::format("card {}", i);
    const Place card{x, at.y, at.w * kShares[i] - 8, at.h};
    const Place inside{card.x + 10, card.y + 3 * unit, card.w - 20, card.h - 6 * unit};
    scene.box(id, card, viz::paint(Ink::kPanel), edge).radius = 6;
    scene.label(id + "/head", {inside.x, inside.y, inside.w, 0.4f * inside.h}, kHeads[i],
                {.size = 11.5f * unit, .paint = {Ink::kDim}}, 7);
    scene
        .label(id + "/value", {inside.x, inside.y + 0.4f * inside.h, inside.w, 0.6f * inside.h},
               values[i], {.size = 15 * unit}, 7)
        .during({kWhen[i], kWhen[i] + 0.2f});
    x += at.w * kShares[i];
  }
}

/// The sequence that is looked at shows its tokens; the others, too, if there is room.
void PagedPage::draw_lanes(viz::Scene& scene, const Place& at, float unit,
                           const std::vector<SequenceOnPage>& all) const {
  if (all.empty()) {
    scene.label("none", {at.x, at.y, at.w, 40 * unit},
                live_.running() ? "The run has ended: every block is free again."
                                : "No sequence yet: press New sequence, then append some tokens.",
                {.size = 14 * unit, .paint = {Ink::kDim}});
    return;
  }
  const std::string& first = in_focus(all);
  const float gap = kLaneGap * unit, full = (2 * kLaneRow + kTokensToTable) * unit;
  const auto count = static_cast<float>(all.size());
  const bool all_full = count * (full + gap) <= at.h;
  const float rest = std::min(kLaneRow * unit, (at.h - full) / std::max(count - 1, 1.0f) - 3);
  float y = at.y;
  for (const SequenceOnPage& sequence : all) {
    const bool tokens = all_full || sequence.name == first;
    const float h = tokens ? full : std::max(rest, 10.0f);
    const int focus = pointed_ && pointed_->name == sequence.name
                          ? pointed_->token
                          : static_cast<int>(sequence.texts.size()) - 1;
    lane(scene, sequence,
         {.at = {at.x, y, at.w, h},
          .unit = unit,
          .tokens = tokens,
          .focus = focus / manager().block_size(),
          .pool_blocks = manager().pool().num_blocks()});
    y += h + (all_full || tokens ? gap : 3);
  }
}

void PagedPage::draw_pool(viz::Scene& scene, const Place& at, float unit,
                          const std::vector<SequenceOnPage>& all) const {
  const BlockPool& pool = manager().pool();
  const int size = manager().block_size();
  viz::PoolView view = viz::pool_view(size, 0, pool.num_blocks(),
                                      [&](int32_t id) { return pool.is_used(id) ? 1 : 0; });
  view.show_refs = false;
  for (const SequenceOnPage& sequence : all) {
    const BlockTable& table = *sequence.table;
    view.add(sequence, table.block_ids(), table.num_tokens());
    if (pool.num_blocks() * size > kMostTexts) continue;
    for (int token = 0; token < table.num_tokens(); ++token) {
      const auto id = static_cast<int32_t>(table.slot(token) / size);
      view.at(id).tokens.push_back(live_.running() ? sequence.text(token)
                                                   : sequence.name + sequence.text(token));
    }
  }
  viz::pool(scene, view, at);
  const float line = 17 * unit, w = kLaneName * unit - 6;
  scene.label("pool/name", {0, at.y, w, line}, "pool", {.size = 13 * unit});
  scene
      .label("pool/free", {0, at.y + line, w, line}, fmt::format("{} of", pool.num_free()),
             {.size = 11 * unit, .paint = {Ink::kDim}})
      .during({0.8f, 1});
  scene.label("pool/all", {0, at.y + 2 * line, w, line}, fmt::format("{} free", pool.num_blocks()),
              {.size = 11 * unit, .paint = {Ink::kDim}});
}

PagedPage::Way PagedPage::way_of(const SequenceOnPage& sequence, int token) {
  const int size = sequence.table->block_size();
  const int64_t slot = sequence.table->slot(token);
  return {.token = fmt::format("{}/token {}", sequence.name, token),
          .entry = fmt::format("{}/entry {}", sequence.name, token / size),
          .block = block_name(slot / size),
          .slot = slot_name(slot / size, slot % size)};
}

/// Lines along a way, from shape to shape of those that are there.
void PagedPage::draw_way(viz::Scene& scene, Way& way, const std::string& id, int hue, bool only_lit,
                         bool one_by_one) {
  const auto line = [&](float x0, float y0, float x1, float y1, const Span& span) {
    way.lines.push_back(fmt::format("{} {}", id, way.lines.size()));
    scene.line(way.lines.back(), x0, y0, x1, y1, viz::full(hue), only_lit ? 2.0f : 2.5f)
        .pointing()
        .on_top()
        .during(one_by_one ? span : Span{})
        .only_lit = only_lit;
  };
  const Shape* entry = scene.find(way.entry);
  const Shape* block = scene.find(way.block);
  if (entry == nullptr || block == nullptr) return;
  const Place from = entry->at, to = block->at;
  if (const Shape* token = scene.find(way.token)) {
    const Place at = token->at;
    line(at.middle_x(), at.bottom(), std::clamp(at.middle_x(), from.x + 4, from.right() - 4),
         from.y, {0.15f, 0.3f});
  }
  const Shape* slot = scene.find(way.slot);
  const Place end = slot == nullptr ? to : slot->at;
  const float x = slot == nullptr ? to.middle_x() : end.x + std::min(9.0f, end.w / 4);
  line(from.middle_x(), from.bottom(), x, to.y, {0.35f, 0.55f});
  if (slot != nullptr) line(x, to.y, x, end.y, {0.65f, 0.8f});
}

/// An entry and its block light up together.
void PagedPage::connect(viz::Scene& scene, const SequenceOnPage& sequence) {
  const BlockTable& table = *sequence.table;
  const int size = table.block_size();
  for (int entry = 0; entry < table.num_blocks(); ++entry) {
    Way way{.token = {},
            .entry = fmt::format("{}/entry {}", sequence.name, entry),
            .block = block_name(table.block_ids()[static_cast<size_t>(entry)]),
            .slot = {}};
    if (scene.find(way.entry) != nullptr) {
      const std::string id = fmt::format("way {}", way.entry);
      draw_way(scene, way, id, sequence.hue, true, false);
      scene.find(way.entry)->lighting({way.block, id + " 0"});
    }
    const int first = entry * size, end = std::min(first + size, table.num_tokens());
    const Way shown = way_of(sequence, first);
    if (scene.find(shown.token) == nullptr && scene.find(shown.slot) == nullptr) continue;
    for (int token = first; token < end; ++token) connect(scene, sequence, token);
  }
}

/// A token, its entry, its block and its slot light up together, and a click keeps the way.
void PagedPage::connect(viz::Scene& scene, const SequenceOnPage& sequence, int token) {
  Way way = way_of(sequence, token);
  draw_way(scene, way, fmt::format("way {}/{}", sequence.name, token), sequence.hue, true, false);
  std::vector<std::string> lights = way.lines;
  lights.insert(lights.end(), {way.token, way.entry, way.block, way.slot});
  const int size = sequence.table->block_size();
  const int64_t slot = sequence.table->slot(token);
  const std::string tip = fmt::format(
      "token {} of {}: {}\nblock = table[{} / {}] = {}\noffset = {} mod {} = {}\nslot = {} * {} + "
      "{} "
      "= {}",
      token, sequence.name, sequence.text(token), token, size, slot / size, token, size,
      slot % size, slot / size, size, slot % size, slot);
  for (const std::string& id : {way.token, way.slot}) {
    if (Shape* shape = scene.find(id)) {
      shape->lighting(lights).tip(tip).runs(fmt::format("point {} {}", sequence.name, token));
    }
  }
}

/// The way that was asked for stays. A copy of the token goes along it first.
void PagedPage::draw_pointed(viz::Scene& scene, const SequenceOnPage& sequence) const {
  Way way = way_of(sequence, pointed_->token);
  for (int run = pointed_->token / sequence.table->block_size(); run >= 0 && !scene.find(way.entry);
       --run) {
    way.entry = fmt::format("{}/run {}", sequence.name, run);
  }
  draw_way(scene, way, "pointed", sequence.hue, false, change_.pointed);
  const auto ring = [&](const std::string& id, const Span& span) {
    if (const Shape* shape = scene.find(id)) {
      const Place at = shape->at;
      scene.box("pointed/" + id.substr(0, id.find(' ')), at.inset(-2), {}, viz::paint(Ink::kMark))
          .edged(viz::paint(Ink::kMark), 2.5f)
          .on_top()
          .during(change_.pointed ? span : Span{});
    }
  };
  ring(way.token, {0, 0.1f});
  ring(way.entry, {0.25f, 0.35f});
  ring(way.block, {0.5f, 0.6f});
  ring(way.slot, {0.75f, 0.9f});
  const Shape *token = scene.find(way.token), *entry = scene.find(way.entry);
  const Shape* slot = scene.find(way.slot);
  if (!change_.pointed || token == nullptr || entry == nullptr || slot == nullptr) return;
  const Place first = token->at, second = entry->at, last = slot->at;
  send(scene, way.token, first, second, {0.1f, 0.3f});
  send(scene, way.token, second, last, {0.35f, 0.8f});
}

/// Blocks are taken from the free ones and written down in the table; tokens drop into their slots.
void PagedPage::move_new(viz::Scene& scene, const SequenceOnPage& sequence) const {
  const auto grown = change_.grown.find(sequence.name);
  if (grown == change_.grown.end() || manager().pool().num_blocks() > kMostMoves) return;
  const BlockTable& table = *sequence.table;
  const int size = table.block_size(), before = grown->second, count = table.num_tokens() - before;
  const int old_blocks = blocks_for(before, size), fresh = table.num_blocks() - old_blocks;
  for (Shape& shape : scene.since(0)) {  // the lane first makes room
    if (shape.id.starts_with(sequence.name + "/")) shape.during({0, 0.3f});
  }
  for (int i = 0; i < fresh; ++i) {
    const std::string block = block_name(table.block_ids()[static_cast<size_t>(old_blocks + i)]);
    const std::string entry = fmt::format("{}/entry {}", sequence.name, old_blocks + i);
    const Span span = staggered({0, 0.45f}, i, fresh, 0.25f);
    for (const std::string& id : {entry, entry + "/id"}) {
      if (Shape* shape = scene.find(id)) shape->comes_from(block, span);
    }
    for (const char* part : {"", "/id"})
      during(scene, block + part, {span.begin, span.begin + 0.05f});
    if (count > kMostDrops) during(scene, block + "/fill 0", staggered({0.1f, 1}, i, fresh, 0.1f));
  }
  if (count > kMostTexts) return;
  for (int i = 0; i < count; ++i) {
    const Way way = way_of(sequence, before + i);
    const Span span = staggered({0.35f, 1}, i, count, 0.25f);
    const Span lands{span.end - 0.05f, span.end};
    during(scene, way.slot, lands);
    during(scene, way.slot + "/token", lands);
    const Span shows = staggered({0.05f, 0.5f}, i, count, 0.1f);
    during(scene, way.token + "/text", shows);
    if (count > kMostDrops) continue;
    const Shape *token = scene.find(way.token), *slot = scene.find(way.slot);
    if (token == nullptr || slot == nullptr) continue;
    const Place from = token->at, to = slot->at;
    send(scene, way.token, from, to, span);
  }
}

/// The entries of a table that is gone go back to their blocks, the last one first.
void PagedPage::move_gone(viz::Scene& scene) const {
  if (manager().pool().num_blocks() > kMostMoves) return;
  for (const auto& [name, blocks] : change_.gone) {
    const auto count = static_cast<int>(blocks.size());
    for (int i = 0; i < count; ++i) {
      const std::string id = block_name(blocks[static_cast<size_t>(i)]);
      const Shape* block = scene.find(id);
      if (block == nullptr) continue;
      const Place to = block->at;
      const Span span = staggered({0, 0.9f}, count - 1 - i, count, 0.4f);
      const std::string entry = fmt::format("{}/entry {}", name, i);
      scene.leaves(entry, to, span);
      scene.leaves(entry + "/id", to, span);
      const Span then{span.end - 0.05f, span.end + 0.1f};
      for (const char* part : {"", "/id"}) during(scene, id + part, then);
      for (int offset = 0; offset < manager().block_size(); ++offset) {
        const std::string slot = slot_name(blocks[static_cast<size_t>(i)], offset);
        during(scene, slot, then);
        if (const Shape* shape = scene.find(slot)) scene.leaves(slot + "/token", shape->at, then);
      }
    }
  }
}

}  // namespace lesson03
