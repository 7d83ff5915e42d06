#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "paged.h"
#include "viz/drawing/pool_motion.h"
#include "viz/drawing/table_lane.h"
#include "viz/drawing/text_room.h"

namespace lesson03 {
namespace {

using viz::block_id;
using viz::Ink;
using viz::Place;
using viz::Shape;
using viz::slot_id;
using viz::Span;
using viz::staggered;

constexpr int kMaxDrops = 48;    // tokens that fall one by one
constexpr int kMaxTexts = 2048;  // slots whose tokens are written in them
constexpr int kMaxMoves = 512;   // blocks of a pool in which they move one by one

/// A token's way through the picture.
struct Way {
  std::string token, entry, block, slot;  // shapes; that of the token may be missing
  std::vector<std::string> lines = {};    // from one to the next
};

Way way_of(const SequenceOnPage& sequence, int token) {
  const int size = sequence.table.block_size();
  const int64_t slot = sequence.table.slot(token);
  return {.token = fmt::format("{}/token {}", sequence.name, token),
          .entry = fmt::format("{}/entry {}", sequence.name, token / size),
          .block = block_id(slot / size),
          .slot = slot_id(slot / size, slot % size)};
}

class Picture {
 public:
  Picture(const viz::Room& room, const Shown& before, const Shown& now, std::string focus)
      : scene_(room), before_(before), now_(now), focus_(std::move(focus)) {
    points_ = now.pointed && now.pointed != before.pointed;
    num_blocks_ = static_cast<int>(now.used.size());
    is_small_ = room.w <= viz::kTextWidth;
    only_blocks_ = is_small_ && !now.pointed && num_blocks_ * now.block_size > kMaxTexts;
    unit_ = is_small_ ? 1 : std::clamp(std::min(room.w / 900, room.h / 480), 0.7f, 1.7f);
  }

  viz::Scene draw() {
    const viz::Room& room = scene_.room();
    const std::vector<SequenceOnPage>& all = now_.sequences;
    const float x = 4, w = room.w - 8;  // rings need their room, too
    const float cards = only_blocks_ ? 0 : (is_small_ ? 98 : 46) * unit_;
    if (!only_blocks_) draw_cards({x, 2, w, cards});
    if (!now_.refusal.empty()) {
      scene_.label("refusal", {x, cards + 4 * unit_, w, 22 * unit_}, now_.refusal,
                   {.size = 13 * unit_, .paint = {Ink::kError}}, 8);
    }
    const float top = cards + 31 * unit_, left = x + viz::kLaneName * unit_, foot = 22 * unit_;
    // The pool stays where it is when sequences come and go.
    const float two = 2 * (2 * viz::kLaneRow + viz::kTokensToTable + viz::kLaneGap) * unit_;
    const float many = two / 2 + 14 * static_cast<float>(all.size());
    const float part = viz::is_narrow(room) ? 0 : 0.33f * (room.h - top);
    Place lanes{x, top, w, std::max({two, many, part})};
    if (only_blocks_) {
      viz::heading(scene_, "tables", {left, top, w, 20}, "tables: the blocks of each sequence");
      lanes = {x, top + 22, w, (viz::kLaneRow + 3) * static_cast<float>(all.size())};
    }
    draw_lanes(lanes);
    const float pool_y = lanes.bottom() + 26 * unit_;
    draw_pool({left, pool_y, x + w - left, room.h - foot - pool_y});
    viz::legend(
        scene_, {x, room.h - 18 * unit_, w, 18 * unit_},
        {{viz::State::kInUse, "in a table: its sequence's colour"}, {viz::State::kFree, "free"}});
    for (const SequenceOnPage& sequence : all) connect(sequence);
    if (now_.pointed) draw_pointed(*now_.find(now_.pointed->name));
    scene_.lasts(points_ ? 1.5f : 0.5f);
    if (num_blocks_ > kMaxMoves) return std::move(scene_);
    for (const SequenceOnPage& sequence : all) move_new(sequence);
    for (const SequenceOnPage& sequence : before_.sequences) {
      if (now_.find(sequence.name) == nullptr) move_gone(sequence);
    }
    return std::move(scene_);
  }

 private:
  /// The three lines of the lesson, with the numbers of the token that is pointed at.
  void draw_cards(const Place& at) {
    std::array<std::string, 4> values{"click one", "", "", ""};
    viz::Paint edge = viz::paint(Ink::kLine);
    if (now_.pointed) {
      const SequenceOnPage& sequence = *now_.find(now_.pointed->name);
      const int token = now_.pointed->token, size = sequence.table.block_size();
      const int64_t slot = sequence.table.slot(token);
      values = {
          fmt::format("{} of {}", token, sequence.name),
          fmt::format("table[{} / {}] = table[{}] = {}", token, size, token / size, slot / size),
          fmt::format("{} mod {} = {}", token, size, slot % size),
          fmt::format("{} \u00D7 {} + {} = {}", slot / size, size, slot % size, slot)};
      edge = viz::full(sequence.hue);
    }
    constexpr std::array<const char*, 4> kHeads{"token t", "block = table[t / size]",
                                                "offset = t mod size",
                                                "slot = block \u00D7 size + offset"};
    constexpr std::array<float, 4> kShares{0.15f, 0.34f, 0.23f, 0.28f};
    constexpr std::array<float, 4> kWhen{0, 0.3f, 0.55f, 0.75f};
    float x = at.x;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string id = fmt::format("card {}", i);
      Place card{x, at.y, at.w * kShares[i] - 8, at.h};
      if (is_small_) {  // two rows of two
        const float h = (at.h - 6) / 2, w = i % 2 == 0 ? 0.42f : 0.58f;
        card = {at.x + (i % 2 == 0 ? 0 : 0.42f * at.w), at.y + (i < 2 ? 0 : h + 6), w * at.w - 8,
                h};
      }
      const Place inside{card.x + 10, card.y + 3 * unit_, card.w - 20, card.h - 6 * unit_};
      scene_.box(id, card, viz::paint(Ink::kPanel), edge).radius = 6;
      scene_.label(id + "/head", {inside.x, inside.y, inside.w, 0.4f * inside.h}, kHeads[i],
                   {.size = 11.5f * unit_, .paint = {Ink::kDim}}, 7);
      scene_
          .label(now_.pointed || i > 0 ? id + "/value" : "hint/token",
                 {inside.x, inside.y + 0.4f * inside.h, inside.w, 0.6f * inside.h}, values[i],
                 {.size = 15 * unit_}, 7)
          .during({kWhen[i], kWhen[i] + 0.2f});
      x += at.w * kShares[i];
    }
  }

  /// The sequence in focus shows its tokens; the others, too, if there is room.
  void draw_lanes(const Place& at) {
    if (now_.sequences.empty()) {
      scene_.label("hint/none", {at.x, at.y, at.w, 40 * unit_},
                   now_.live ? "The run has ended: every block is free again."
                             : "No sequence yet: press New, then append some tokens.",
                   {.size = 14 * unit_, .paint = {Ink::kDim}});
      return;
    }
    const float gap = viz::kLaneGap * unit_,
                full = (2 * viz::kLaneRow + viz::kTokensToTable) * unit_;
    const auto count = static_cast<float>(now_.sequences.size());
    const bool all_full = count * (full + gap) <= at.h;
    const float rest =
        std::min(viz::kLaneRow * unit_, (at.h - full) / std::max(count - 1, 1.0f) - 3);
    float y = at.y;
    for (const SequenceOnPage& sequence : now_.sequences) {
      const bool tokens = !only_blocks_ && (all_full || sequence.name == focus_);
      const float h = tokens ? full : std::max(rest, 10.0f);
      const int focus = now_.pointed && now_.pointed->name == sequence.name
                            ? now_.pointed->token
                            : static_cast<int>(sequence.texts.size()) - 1;
      const BlockTable& table = sequence.table;
      const auto ids = table.block_ids();
      const viz::TableView held{.sequence = sequence,
                                .block_ids = {ids.begin(), ids.end()},
                                .num_tokens = table.num_tokens(),
                                .block_size = table.block_size()};
      lane(scene_, held, sequence.texts,
           {.at = {at.x, y, at.w, h},
            .unit = unit_,
            .tokens = tokens,
            .focus = focus / table.block_size(),
            .pool_blocks = num_blocks_});
      y += h + (all_full || tokens ? gap : 3);
    }
  }

  void draw_pool(const Place& at) {
    viz::PoolView view = viz::pool_view(now_.block_size, 0, num_blocks_,
                                        [&](int32_t id) { return now_.used[id] ? 1 : 0; });
    view.show_refs = false;
    const bool has_texts = num_blocks_ * now_.block_size <= kMaxTexts;
    for (const SequenceOnPage& sequence : now_.sequences) {
      const auto ids = sequence.table.block_ids();
      const std::string before = now_.live ? "" : sequence.name;
      const auto text = [&](int token) { return before + sequence.text(token); };
      has_texts ? view.add(sequence, ids, sequence.table.num_tokens(), text)
                : view.add(sequence, ids, sequence.table.num_tokens());
    }
    viz::pool(scene_, view, at);
    const float line = 17 * unit_, w = viz::kLaneName * unit_ - 6;
    const viz::Type small{.size = 11 * unit_, .paint = {Ink::kDim}};
    scene_.label("pool/name", {0, at.y, w, line}, "pool", {.size = 13 * unit_});
    scene_
        .label("pool/free", {0, at.y + line, w, line},
               fmt::format("{} of", std::ranges::count(now_.used, false)), small)
        .during({0.8f, 1});
    scene_.label("pool/all", {0, at.y + 2 * line, w, line}, fmt::format("{} free", num_blocks_),
                 small);
  }

  /// Lines along a way, from shape to shape of those that are there.
  void draw_way(Way& way, const std::string& id, int hue, bool only_lit, bool one_by_one) {
    const auto line = [&](float x0, float y0, float x1, float y1, const Span& span) {
      way.lines.push_back(fmt::format("{} {}", id, way.lines.size()));
      scene_.line(way.lines.back(), x0, y0, x1, y1, viz::full(hue), only_lit ? 2.0f : 2.5f)
          .pointing()
          .on_top()
          .during(one_by_one ? span : Span{})
          .only_lit = only_lit;
    };
    const Shape* entry = scene_.find(way.entry);
    const Shape* block = scene_.find(way.block);
    if (entry == nullptr || block == nullptr) return;
    const Place from = entry->at, to = block->at;
    if (const Shape* token = scene_.find(way.token)) {
      const Place at = token->at;
      line(at.middle_x(), at.bottom(), std::clamp(at.middle_x(), from.x + 4, from.right() - 4),
           from.y, {0.15f, 0.3f});
    }
    const Shape* slot = scene_.find(way.slot);
    const Place end = slot == nullptr ? to : slot->at;
    const float x = slot == nullptr ? to.middle_x() : end.right() - std::min(9.0f, end.w / 4);
    line(from.middle_x(), from.bottom(), x, to.y, {0.35f, 0.55f});
    if (slot != nullptr) line(x, to.y, x, end.y, {0.65f, 0.8f});
  }

  /// An entry and its block light up together.
  void connect(const SequenceOnPage& sequence) {
    const BlockTable& table = sequence.table;
    const int size = table.block_size();
    for (int entry = 0; entry < table.num_blocks(); ++entry) {
      Way way{.token = {},
              .entry = fmt::format("{}/entry {}", sequence.name, entry),
              .block = block_id(table.block_ids()[entry]),
              .slot = {}};
      if (scene_.find(way.entry) != nullptr) {
        const std::string id = fmt::format("way {}", way.entry);
        draw_way(way, id, sequence.hue, true, false);
        scene_.find(way.entry)->lighting({way.block, id + " 0"});
      }
      const int first = entry * size, end = std::min(first + size, table.num_tokens());
      const Way shown = way_of(sequence, first);
      if (scene_.find(shown.token) == nullptr && scene_.find(shown.slot) == nullptr) continue;
      for (int token = first; token < end; ++token) connect(sequence, token);
    }
  }

  /// A token, its entry, its block and its slot light up together, and a click keeps the way.
  void connect(const SequenceOnPage& sequence, int token) {
    Way way = way_of(sequence, token);
    draw_way(way, fmt::format("way {}/{}", sequence.name, token), sequence.hue, true, false);
    std::vector<std::string> lights = way.lines;
    lights.insert(lights.end(), {way.token, way.entry, way.block, way.slot});
    const int size = sequence.table.block_size();
    const int64_t slot = sequence.table.slot(token), block = slot / size, offset = slot % size;
    const std::string tip = fmt::format(
        "token {} of {}: {}\nblock = table[{} / {}] = {}\noffset = {} mod {} = {}\n"
        "slot = {} * {} + {} = {}",
        token, sequence.name, sequence.text(token), token, size, block, token, size, offset, block,
        size, offset, slot);
    for (const std::string& id : {way.token, way.slot}) {
      if (Shape* shape = scene_.find(id)) {
        shape->lighting(lights).tip(tip).runs(fmt::format("point {} {}", sequence.name, token));
      }
    }
  }

  /// The way that was asked for stays. A copy of the token goes along it first.
  void draw_pointed(const SequenceOnPage& sequence) {
    Way way = way_of(sequence, now_.pointed->token);
    for (int run = now_.pointed->token / sequence.table.block_size();
         run >= 0 && !scene_.find(way.entry); --run) {
      way.entry = fmt::format("{}/run {}", sequence.name, run);
    }
    draw_way(way, "pointed", sequence.hue, false, points_);
    const auto ring = [&](const std::string& id, const Span& span) {
      if (const Shape* shape = scene_.find(id)) {
        const Place at = shape->at;
        scene_
            .box("pointed/" + id.substr(0, id.find(' ')), at.inset(-2), {}, viz::paint(Ink::kMark))
            .edged(viz::paint(Ink::kMark), 2.5f)
            .on_top()
            .during(points_ ? span : Span{});
      }
    };
    ring(way.token, {0, 0.1f});
    ring(way.entry, {0.25f, 0.35f});
    ring(way.block, {0.5f, 0.6f});
    ring(way.slot, {0.75f, 0.9f});
    const Shape *token = scene_.find(way.token), *entry = scene_.find(way.entry);
    const Shape* slot = scene_.find(way.slot);
    if (!points_ || token == nullptr || entry == nullptr || slot == nullptr) return;
    const Place first = token->at, second = entry->at, last = slot->at;
    viz::send(scene_, way.token, first, second, {0.1f, 0.3f});
    viz::send(scene_, way.token, second, last, {0.35f, 0.8f});
  }

  /// Blocks are taken from the free ones and written down in the table; tokens drop into their
  /// slots.
  void move_new(const SequenceOnPage& sequence) {
    const BlockTable& table = sequence.table;
    const int before = before_.num_tokens(sequence.name), count = table.num_tokens() - before;
    if (count <= 0) return;
    scene_.lasts(1.2f);
    const int old_blocks = blocks_for(before, table.block_size());
    const int fresh = table.num_blocks() - old_blocks;
    for (Shape& shape : scene_.since(0)) {  // the lane first makes room
      if (shape.id.starts_with(sequence.name + "/")) shape.during({0, 0.3f});
    }
    for (int i = 0; i < fresh; ++i) {
      const std::string block = block_id(table.block_ids()[old_blocks + i]);
      const std::string entry = fmt::format("{}/entry {}", sequence.name, old_blocks + i);
      const Span span = staggered({0, 0.45f}, i, fresh, 0.25f);
      for (const char* part : {"", "/id"}) {
        if (Shape* shape = scene_.find(entry + part)) shape->comes_from(block, span);
        viz::during(scene_, block + part, {span.begin, span.begin + 0.05f});
      }
      if (count > kMaxDrops) {
        viz::during(scene_, block + "/fill 0", staggered({0.1f, 1}, i, fresh, 0.1f));
      }
    }
    if (fresh > 0) viz::during(scene_, "pool/free", {0, 0.45f});  // while they are taken
    if (count > kMaxTexts) return;
    for (int i = 0; i < count; ++i) {
      const Way way = way_of(sequence, before + i);
      const Span span = staggered({0.35f, 1}, i, count, 0.25f);
      const Span lands{span.end - 0.05f, span.end};
      viz::during(scene_, way.slot, lands);
      viz::during(scene_, way.slot + "/token", lands);
      viz::during(scene_, way.token + "/text", staggered({0.05f, 0.5f}, i, count, 0.1f));
      const Shape *token = scene_.find(way.token), *slot = scene_.find(way.slot);
      if (count > kMaxDrops || token == nullptr || slot == nullptr) continue;
      const Place from = token->at, to = slot->at;
      viz::send(scene_, way.token, from, to, span);
    }
  }

  /// The entries of a table that is gone go back to their blocks, the last one first.
  void move_gone(const SequenceOnPage& sequence) {
    if (!points_) scene_.lasts(0.9f);
    const auto blocks = sequence.table.block_ids();
    const auto count = std::ssize(blocks);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t block = blocks[i];
      const Shape* shape = scene_.find(block_id(block));
      if (shape == nullptr) continue;
      const Place to = shape->at;
      const Span span = staggered({0, 0.9f}, count - 1 - i, count, 0.4f);
      const Span then{span.end - 0.05f, span.end + 0.1f};
      for (const char* part : {"", "/id"}) {
        scene_.leaves(fmt::format("{}/entry {}{}", sequence.name, i, part), to, span);
        viz::during(scene_, block_id(block) + part, then);
      }
      for (int offset = 0; offset < sequence.table.block_size(); ++offset) {
        const std::string slot = slot_id(block, offset);
        viz::during(scene_, slot, then);
        if (const Shape* place = scene_.find(slot)) scene_.leaves(slot + "/token", place->at, then);
      }
    }
  }

  viz::Scene scene_;
  const Shown& before_;
  const Shown& now_;
  const std::string focus_;
  bool points_ = false;  // the last command points at another token
  int num_blocks_ = 0;   // of the pool
  float unit_ = 1;
  bool is_small_ = false;
  bool only_blocks_ = false;  // too many for words: tables alone, as runs of blocks
};

}  // namespace

const std::string& in_focus(const Shown& before, const Shown& now, const std::string& selected) {
  if (now.pointed) return now.pointed->name;
  for (const SequenceOnPage& sequence : now.sequences) {
    if (sequence.table.num_tokens() > before.num_tokens(sequence.name)) return sequence.name;
  }
  if (const SequenceOnPage* one = now.find(selected)) return one->name;
  return now.sequences.empty() ? selected : now.sequences.back().name;
}

viz::Scene paged_scene(const viz::Room& room, const Shown& before, const Shown& now,
                       const std::string& selected) {
  return Picture(room, before, now, in_focus(before, now, selected)).draw();
}

}  // namespace lesson03
