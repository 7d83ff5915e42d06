#include "viz/drawing/linked_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"

namespace viz {
namespace {

/// Ids of what link i of a table is drawn with, if it is drawn.
std::vector<std::string> link_ids(const std::string& name, size_t i) {
  const std::string id = fmt::format("{}/link {}", name, i);
  return {id, id + "/rim", id + "/down", id + "/dot"};
}

/// The end of a text that fits.
std::string end_of(std::string text, float size, float width) {
  while (text_width(text, size) > width && text.find(' ', 1) != std::string::npos) {
    text.erase(0, text.find(' ', 1));
  }
  return text;
}

/// The cards with the tables: all of one size, in rows. Measured in the size of their text.
struct Cards {
  float em = 10;
  bool entries = false;  // false: no room for them
  Grid grid;
  float name = 0;  // width

  float entry_w() const { return 2.3f * em; }
  /// Of entry i, or of what is after the last one.
  Place entry(const Place& card, size_t i) const {
    return {card.x + name + static_cast<float>(i) * (entry_w() + 3), card.y + 0.5f * em, entry_w(),
            1.9f * em};
  }
  float chip_w(const std::string& token) const {
    return token.empty() ? 0 : text_width(token, em) + 0.8f * em;
  }
};

/// Room that the cards need if their text has this size.
Cards measured(const std::vector<TableCard>& tables, float em, float& w, float& h) {
  Cards cards{.em = em, .entries = true, .grid = {}, .name = 0};
  float content = 3 * em;
  h = 2.9f * em;
  for (const TableCard& table : tables) {
    const auto blocks = static_cast<float>(table.block_ids.size());
    cards.name = std::max(cards.name, text_width(table.sequence.name, 1.2f * em) + 24);
    content = std::max(content, blocks * (cards.entry_w() + 3) + cards.chip_w(table.waiting));
    if (table.text.empty()) continue;
    content = std::max(content, 12 * em);
    h = 4.4f * em;
  }
  w = cards.name + content + 0.5f * em;
  return cards;
}

/// Cards with text of size `em` in a grid; empty if they do not fit.
std::optional<Cards> cards_of(const std::vector<TableCard>& tables, const Place& room, float em,
                              int columns, int rows) {
  float w = 0, h = 0;
  Cards cards = measured(tables, em, w, h);
  const float gap = 1.2f * em;
  const auto c = static_cast<float>(columns);
  const float high = static_cast<float>(rows) * (h + gap) - gap;
  const float widest = (room.w + gap) / c - gap;
  if (w > widest || high > room.h) return {};
  w = std::min(widest, std::max(w, 12 * em));
  cards.grid = {
      .area = {room.x, room.y, room.w, high}, .columns = columns, .w = w, .h = h, .gap = gap};
  cards.grid.area.x += (room.w - c * (w + gap) + gap) / 2;
  return cards;
}

/// The largest cards that fit. Up to eight have fixed places, four in a row or two, so that none
/// moves when another one comes; in a low room the second row is there when it is needed. Without
/// their entries if even small ones do not fit.
Cards cards_in(const std::vector<TableCard>& tables, const Place& room) {
  const int columns = is_narrow(room) ? 2 : 4;
  const auto count = static_cast<int>(tables.size());
  const int fixed = std::max(room.h > 170 ? 2 : 1, (count + columns - 1) / columns);
  for (float em = is_narrow(room) ? 14 : 20; em >= 12 && count <= 8; em -= 1) {
    if (const auto cards = cards_of(tables, room, em, columns, fixed)) return *cards;
  }
  for (int rows = 1; rows <= count; ++rows) {
    for (float em = 20; em >= 12; em -= 1) {
      if (const auto cards = cards_of(tables, room, em, (count + rows - 1) / rows, rows))
        return *cards;
    }
  }
  return {.grid = fit(count, room, {.gap = 6, .widest = 12, .most_h = 24})};
}

/// Blocks that suit their slots, in the middle of the room; in one row if they are few.
Grid blocks_in(const PoolView& pool, Place room) {
  const auto count = static_cast<int>(pool.blocks.size());
  const bool flat = pool.block_size <= 4, narrow = is_narrow(room);
  const CellShape shape{.gap = count > 256            ? 2.0f
                               : count > 32 || narrow ? 6.0f
                                                      : 12.0f,
                        .flattest = flat ? 1.25f : 1.0f,
                        .widest = flat && !narrow        ? 3.4f
                                  : pool.block_size <= 8 ? 2.4f
                                                         : 1.6f,
                        .round_to = 4,
                        .full_rows = std::has_single_bit(pool.blocks.size())};
  const float row = room.w / static_cast<float>(count) / shape.flattest;  // its height, if in one
  const float high = row < 0.4f * room.h ? room.h : std::min(room.h, row);
  Grid grid = fit(count, {room.x, room.y, room.w, high}, shape);
  grid.area.x += (room.w - grid.area.w) / 2;
  grid.area.y += (room.h - grid.area.h) / 2;
  return grid;
}

class Picture {
 public:
  Picture(Scene& scene, const PoolView& pool, const std::vector<TableCard>& tables,
          const std::string& selected)
      : scene_(scene), pool_(pool), tables_(tables), selected_(selected) {}

  /// Returns whether lines are left out.
  bool draw(const Place& room, float below) {
    const bool tells = !tables_.empty() && !tables_[0].text.empty();  // cards with two lines
    const float part = tells && is_narrow(scene_.room()) ? 0.45f : 0.36f;
    cards_ = cards_in(tables_, {room.x, room.y, room.w, part * room.h});
    const float lines = pool_.blocks.size() > 64 ? 14.0f : std::min(90.0f, 0.12f * room.h);
    const float top = cards_.grid.area.bottom() + lines;
    blocks_ = blocks_in(pool_, {room.x, top, room.w, room.bottom() - below - top});
    draw_pool();
    const bool left_out = links();  // over the blocks, under the cards
    for (size_t i = 0; i < tables_.size(); ++i) {
      table(tables_[i], cards_.grid.cell(static_cast<int>(i)));
    }
    if (tables_.empty()) heading(scene_, "none", cards_.grid.cell(0), "no table yet");
    return left_out;
  }

 private:
  bool links();
  void table(const TableCard& table, const Place& card);
  void entry(const TableCard& table, size_t i, const Place& place);
  void live_words(const TableCard& table, const Place& card);
  void draw_pool();

  Scene& scene_;
  const PoolView& pool_;
  const std::vector<TableCard>& tables_;
  const std::string& selected_;
  Cards cards_;
  Grid blocks_;
};

/// From each entry to its block, where the lines of its holders arrive side by side: each with a
/// rim of the ground and a dot at its end. To a block below others it goes down beside them.
/// Returns whether lines are left out.
bool Picture::links() {
  // More lines than `most` are drawn for the selected sequence or under the mouse only.
  size_t count = 0, most = is_narrow(scene_.room()) ? 8 : 12;
  for (const TableCard& table : tables_) count += table.block_ids.size();
  for (size_t t = 0; t < tables_.size() && cards_.entries; ++t) {
    const TableCard& table = tables_[t];
    const Place card = cards_.grid.cell(static_cast<int>(t));
    const bool always =
        count <= most || (table.sequence.name == selected_ && table.block_ids.size() <= most);
    const float beside =
        std::min(blocks_.gap, 6.0f) * (0.5f + 0.25f * (static_cast<float>(t % 3) - 1));
    for (size_t i = 0; i < table.block_ids.size(); ++i) {
      const BlockView& block = pool_.blocks[static_cast<size_t>(table.block_ids[i])];
      const auto holder = std::ranges::find(block.owners, table.sequence.hue);
      const float part = static_cast<float>(holder - block.owners.begin() + 1) /
                         static_cast<float>(block.owners.size() + 1);
      const Place from = cards_.entry(card, i), to = blocks_.cell(block.id);
      const bool below = to.y > blocks_.area.y;
      const float x = below ? to.x - beside : to.x + to.w * part, y = blocks_.area.y;
      const float end = below ? to.y + to.h * part : y;
      const auto ids = link_ids(table.sequence.name, i);
      const Paint hue = full(table.sequence.hue);
      const size_t before = scene_.shapes().size();
      scene_.line(ids[1], from.middle_x(), from.bottom(), x, y, paint(Ink::kGround), 5);
      scene_.line(ids[0], from.middle_x(), from.bottom(), x, y, hue, 2);
      if (below) scene_.line(ids[2], x, y, x, end, hue, 2);
      const float dot = below ? to.x - 1 : x;
      scene_.box(ids[3], {dot - 4, end - 4, 8, 8}, hue).on_top().radius = 4;
      for (Shape& shape : scene_.since(before)) shape.only_lit = !always;
    }
  }
  return cards_.entries && count > most;
}

/// A card: a name, the entries, and of a live sequence its words.
void Picture::table(const TableCard& table, const Place& card) {
  const std::string& name = table.sequence.name;
  const bool selected = name == selected_;
  scene_.box(name + "/card", card, paint(Ink::kPanel))
      .edged(selected ? full(table.sequence.hue) : paint(Ink::kLine), selected ? 2.5f : 1.2f)
      .selecting(name)
      .tip(fmt::format("{}: {} in {}. A click gives its buttons.", name,
                       kv::count_of(table.num_tokens, "token"),
                       kv::count_of(std::ssize(table.block_ids), "block")));
  if (!cards_.entries) {
    const std::string score = table.score.empty() ? "" : ", " + table.score;
    const std::string held = kv::count_of(std::ssize(table.block_ids), "block");
    scene_.label(name + "/name", card.inset(2), name + ": " + held + score,
                 {.size = 12, .align = Align::kCentre}, 5);
    return;
  }
  const float em = cards_.em;
  scene_
      .box(name + "/bar", {card.x + 5, card.y + 0.5f * em, 5, 1.9f * em}, full(table.sequence.hue))
      .radius = 2;
  scene_.label(name + "/name", {card.x + 15, card.y, cards_.name - 16, 2.9f * em}, name,
               {.size = 1.2f * em});
  for (size_t i = 0; i < table.block_ids.size(); ++i) entry(table, i, cards_.entry(card, i));
  live_words(table, card);
}

void Picture::entry(const TableCard& table, size_t i, const Place& place) {
  const std::string& name = table.sequence.name;
  const std::string id = fmt::format("{}/entry {}", name, i),
                    block = fmt::format("block {}", table.block_ids[i]);
  const int filled =
      std::min(table.block_size, table.num_tokens - static_cast<int>(i) * table.block_size);
  std::vector<std::string> lights = link_ids(name, i);
  lights.push_back(block);
  scene_.box(id, place, soft(table.sequence.hue), full(table.sequence.hue))
      .tip(fmt::format("{}, table entry {}: {}, {} of {} filled", name, i, block, filled,
                       kv::count_of(table.block_size, "slot")))
      .selecting(name)
      .lighting(std::move(lights));
  scene_.label(id + "/id", place.inset(2), std::to_string(table.block_ids[i]),
               {.size = 1.1f * cards_.em, .align = Align::kCentre});
}

void Picture::live_words(const TableCard& table, const Place& card) {
  const std::string& name = table.sequence.name;
  const float em = cards_.em;
  if (!table.waiting.empty()) {
    Place chip = cards_.entry(card, table.block_ids.size());
    chip.w = cards_.chip_w(table.waiting);
    scene_.box(name + "/waiting", chip, paint(Ink::kNone), full(table.sequence.hue))
        .dashed_edge()
        .tip(fmt::format("{} has drawn this token. It has not run yet, so it has no slot.", name));
    scene_.label(name + "/waiting/token", chip, table.waiting,
                 {.size = em, .align = Align::kCentre});
  }
  Place line{card.x + 0.5f * em, card.y + 2.7f * em, card.w - em, 1.4f * em};
  if (!table.score.empty()) {
    const float wide = text_width(table.score, em) + 0.6f * em;
    scene_.label(name + "/score", line, table.score, {.size = em})
        .tip(name + ": the sum of its tokens' log probabilities. The higher, the likelier.");
    line.x += wide, line.w -= wide;
  }
  if (!table.text.empty()) {
    scene_.label(name + "/text", line, end_of(table.text, em, line.w),
                 {.size = em, .paint = {Ink::kDim}});
  }
}

void Picture::draw_pool() {
  for (const BlockView& one : pool_.blocks) block(scene_, pool_, one, blocks_.cell(one.id));
  for (const TableCard& table : tables_) {  // a block under the mouse lights its entries
    for (size_t i = 0; i < table.block_ids.size() && cards_.entries; ++i) {
      const std::string& name = table.sequence.name;
      auto& lights = scene_.find(fmt::format("block {}", table.block_ids[i]))->lights;
      lights.push_back(fmt::format("{}/entry {}", name, i));
      std::ranges::move(link_ids(name, i), std::back_inserter(lights));
    }
  }
}

}  // namespace

bool linked_tables(Scene& scene, const PoolView& pool, const std::vector<TableCard>& tables,
                   const Place& room, float below, const std::string& selected) {
  return Picture(scene, pool, tables, selected).draw(room, below);
}

const TableCard* find_card(const std::vector<TableCard>& cards, const std::string& name) {
  const auto found =
      std::ranges::find(cards, name, [](const TableCard& card) { return card.sequence.name; });
  return found == cards.end() ? nullptr : &*found;
}

void move_card(Scene& scene, const std::vector<TableCard>& before, const TableCard& card,
               const CardTimes& when) {
  const std::string& name = card.sequence.name;
  const TableCard* const same = find_card(before, name);
  const TableCard* const origin = find_card(before, card.origin);
  const bool forked = same == nullptr && origin != nullptr;
  const Span settles = forked ? when.forks : when.settles;
  for (const char* part :
       {"/card", "/bar", "/name", "/score", "/text", "/waiting", "/waiting/token"}) {
    if (Shape* shape = scene.find(name + part)) {
      forked ? shape->comes_from(card.origin + part, settles) : shape->during(settles);
    }
  }
  const size_t old_entries = origin != nullptr ? origin->block_ids.size() : 0;
  for (size_t i = 0; i < card.block_ids.size(); ++i) {
    const std::string entry = fmt::format("/entry {}", i);
    const bool is_old = i < old_entries;
    const bool flips = is_old && origin->block_ids[i] != card.block_ids[i];
    for (const char* part : {"", "/id"}) {
      Shape* shape = scene.find(name + entry + part);
      if (shape == nullptr) continue;
      if (forked && is_old) {
        shape->comes_from(card.origin + entry + part, settles);
      } else if (!is_old) {
        shape->comes_from(name + "/name", when.flips);
      } else {
        shape->during(flips ? when.flips : settles);
      }
    }
    if (flips && !forked) {
      ring(scene, "ring around " + name + entry, name + entry, Ink::kMark, when.flips);
    }
    for (const std::string& id : link_ids(name, i)) {
      Shape* const line = scene.find(id);
      if (line == nullptr) continue;
      line->during(flips || !is_old ? when.flips : same != nullptr ? when.shifts : settles);
      if (forked && is_old) line->comes_from(card.origin + id.substr(name.size()), settles);
    }
  }
}

void end_card(Scene& scene, const TableCard& card, const Span& when) {
  const std::string& name = card.sequence.name;
  for (const char* part : {"/card", "/bar", "/waiting"}) scene.ends(name + part, when);
  for (const char* part : {"/name", "/score", "/text", "/waiting/token"}) {
    scene.ends(name + part, when, true);
  }
  for (size_t i = 0; i < card.block_ids.size(); ++i) {
    for (const char* part : {"/entry {}", "/entry {}/id"}) {
      scene.ends(name + fmt::format(fmt::runtime(part), i), when);
    }
    for (const std::string& id : link_ids(name, i)) scene.ends(id, when);
  }
}

}  // namespace viz
