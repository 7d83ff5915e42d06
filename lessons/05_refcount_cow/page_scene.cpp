#include "page_scene.h"

#include <algorithm>
#include <optional>

namespace lesson05 {
namespace {

using viz::full;
using viz::Ink;
using viz::paint;
using viz::Place;
using viz::text_width;

// More lines than that are drawn for the selected sequence or under the mouse only.
constexpr size_t kMostLinks = 12;

size_t at(int64_t index) { return static_cast<size_t>(index); }

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
  viz::Grid grid;
  float name = 0;  // width

  float entry_w() const { return 2.3f * em; }
  /// Of entry i, or of what stands after the last one.
  Place entry(const Place& card, size_t i) const {
    return {card.x + name + static_cast<float>(i) * (entry_w() + 3), card.y + 0.5f * em, entry_w(),
            1.9f * em};
  }
  float chip_w(const std::string& token) const {
    return token.empty() ? 0 : text_width(token, em) + 0.8f * em;
  }
};

/// What a card needs if its text has this size.
Cards measured(const Shown& now, float em, float& w, float& h) {
  Cards cards{.em = em, .entries = true, .grid = {}, .name = 0};
  float content = 3 * em;
  h = 2.9f * em;
  for (const ShownTable& table : now.tables) {
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

/// Cards with text of that size in so many rows, or none: they do not fit.
std::optional<Cards> cards_of(const Shown& now, const Place& room, float em, int rows) {
  const auto count = static_cast<int>(now.tables.size());
  float w = 0, h = 0;
  Cards cards = measured(now, em, w, h);
  const float gap = 1.2f * em;
  const int columns = (count + rows - 1) / rows;
  const auto c = static_cast<float>(columns);
  const float high = static_cast<float>(rows) * (h + gap) - gap;
  if (c * (w + gap) - gap > room.w || high > room.h) return {};
  // A few in one row stand over the width.
  const float apart = rows > 1 ? gap : std::clamp((room.w - c * w) / (c + 1), gap, 12 * em);
  const float wide = c * (w + apart) - apart;
  cards.grid = {.area = {room.x + (room.w - wide) / 2, room.y, wide, high},
                .columns = columns,
                .w = w,
                .h = h,
                .gap = apart};
  return cards;
}

/// The largest cards that fit, in few rows; without their entries if even small ones do not.
Cards cards_in(const Shown& now, const Place& room) {
  const auto count = static_cast<int>(now.tables.size());
  for (int rows = 1; rows <= count; ++rows) {
    for (float em = 26; em >= (rows == 1 ? 13 : 10); em -= 1) {
      if (const auto cards = cards_of(now, room, em, rows)) return *cards;
    }
  }
  return {.grid = viz::fit(count, room, {.gap = 6, .widest = 12, .most_h = 24})};
}

/// Blocks that suit their slots, in the middle of the room; in one row if they are few.
viz::Grid blocks_in(const viz::PoolView& pool, Place room) {
  const auto count = static_cast<int>(pool.blocks.size());
  const bool flat = pool.block_size <= 4;
  const viz::CellShape shape{.gap = count > 256  ? 2.0f
                                    : count > 32 ? 6.0f
                                                 : 12.0f,
                             .flattest = flat ? 1.25f : 1.0f,
                             .widest = flat                   ? 3.4f
                                       : pool.block_size <= 8 ? 2.4f
                                                              : 1.6f,
                             .round_to = 4};
  const float each = room.w / static_cast<float>(count);
  const float high = each < 130 ? room.h : std::min(room.h, each / shape.flattest);
  viz::Grid grid = viz::fit(count, {room.x, room.y, room.w, high}, shape);
  grid.area.x += (room.w - grid.area.w) / 2;
  grid.area.y += (room.h - grid.area.h) / 2;
  return grid;
}

class Picture {
 public:
  Picture(const Shown& now, const viz::Room& room, const std::string& selected)
      : now_(now), scene_(room), selected_(selected) {}

  viz::Scene draw();

 private:
  void links();
  void table(const ShownTable& table, const Place& card);
  void entry(const ShownTable& table, size_t i, const Place& place);
  void live_words(const ShownTable& table, const Place& card);
  void pool();
  void foot(const Place& at);

  const Shown& now_;
  viz::Scene scene_;
  const std::string& selected_;
  Cards cards_;
  viz::Grid blocks_;
};

viz::Scene Picture::draw() {
  const viz::Room& room = scene_.room();
  constexpr float kFoot = 24, kNote = 44;
  const Place all = Place{0, 0, room.w, room.h}.inset(6);
  cards_ = cards_in(now_, {all.x, all.y, all.w, 0.36f * all.h});
  const float lines = now_.pool.blocks.size() > 64 ? 14.0f : std::min(90.0f, 0.12f * all.h);
  const float top = cards_.grid.area.bottom() + lines;
  blocks_ = blocks_in(now_.pool, {all.x, top, all.w, all.bottom() - kFoot - kNote - top});
  links();  // first: they lie under what they join
  for (size_t i = 0; i < now_.tables.size(); ++i) {
    table(now_.tables[i], cards_.grid.cell(static_cast<int>(i)));
  }
  if (now_.tables.empty()) {
    viz::heading(scene_, "none", cards_.grid.cell(0), "no table yet");
  }
  pool();
  foot({all.x, all.bottom() - kFoot, all.w, kFoot});
  if (!now_.refusal.empty()) {
    viz::note(scene_, "refusal", {all.x, all.bottom() - kFoot - kNote + 4, all.w, kNote},
              now_.refusal, "", Ink::kError, {0.25f, 0.5f});
  }
  return std::move(scene_);
}

/// From each entry to its block, where the lines of its holders arrive side by side.
void Picture::links() {
  size_t count = 0;
  for (const ShownTable& table : now_.tables) count += table.block_ids.size();
  for (size_t t = 0; t < now_.tables.size() && cards_.entries; ++t) {
    const ShownTable& table = now_.tables[t];
    const Place card = cards_.grid.cell(static_cast<int>(t));
    const bool always = count <= kMostLinks ||
                        (table.sequence.name == selected_ && table.block_ids.size() <= kMostLinks);
    for (size_t i = 0; i < table.block_ids.size(); ++i) {
      const viz::BlockView& block = now_.pool.blocks[at(table.block_ids[i])];
      const auto holder = std::ranges::find(block.owners, table.sequence.hue);
      const float part = static_cast<float>(holder - block.owners.begin() + 1) /
                         static_cast<float>(block.owners.size() + 1);
      const Place from = cards_.entry(card, i), to = blocks_.cell(block.id);
      viz::Shape& line =
          scene_.line(fmt::format("{}/link {}", table.sequence.name, i), from.middle_x(),
                      from.bottom(), to.x + to.w * part, to.y, full(table.sequence.hue), 2);
      line.only_lit = !always;
      line.opacity = 0.8f;
    }
  }
}

/// A card: a name, the entries, and of a live sequence its words.
void Picture::table(const ShownTable& table, const Place& card) {
  const std::string& name = table.sequence.name;
  const bool selected = name == selected_;
  scene_.box(name + "/card", card, paint(Ink::kPanel))
      .edged(selected ? full(table.sequence.hue) : paint(Ink::kLine), selected ? 2.5f : 1.2f)
      .selecting(name)
      .tip(fmt::format("{}: {} in {}. A click gives its buttons.", name,
                       kv::count_of(table.num_tokens, "token"),
                       kv::count_of(std::ssize(table.block_ids), "block")));
  if (!cards_.entries) {
    scene_.label(name + "/name", card.inset(2),
                 fmt::format("{}: {}", name, std::ssize(table.block_ids)),
                 {.size = 12, .align = viz::Align::kCentre}, 5);
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

void Picture::entry(const ShownTable& table, size_t i, const Place& place) {
  const std::string& name = table.sequence.name;
  const std::string id = fmt::format("{}/entry {}", name, i),
                    block = fmt::format("block {}", table.block_ids[i]);
  const int filled =
      std::min(table.block_size, table.num_tokens - static_cast<int>(i) * table.block_size);
  scene_.box(id, place, viz::soft(table.sequence.hue), full(table.sequence.hue))
      .tip(fmt::format("{}, table entry {}: {}, {} of {} filled", name, i, block, filled,
                       kv::count_of(table.block_size, "slot")))
      .selecting(name)
      .lighting({block, fmt::format("{}/link {}", name, i)});
  scene_.label(id + "/id", place.inset(2), std::to_string(table.block_ids[i]),
               {.size = 1.1f * cards_.em, .align = viz::Align::kCentre});
}

void Picture::live_words(const ShownTable& table, const Place& card) {
  const std::string& name = table.sequence.name;
  const float em = cards_.em;
  if (!table.waiting.empty()) {
    Place chip = cards_.entry(card, table.block_ids.size());
    chip.w = cards_.chip_w(table.waiting);
    scene_.box(name + "/waiting", chip, paint(Ink::kNone), full(table.sequence.hue))
        .dashed_edge()
        .tip(fmt::format("{} has drawn this token. It has not run yet, so it has no slot.", name));
    scene_.label(name + "/waiting/token", chip, table.waiting,
                 {.size = em, .align = viz::Align::kCentre});
  }
  if (!table.text.empty()) {
    const Place line{card.x + 0.5f * em, card.y + 2.7f * em, card.w - em, 1.4f * em};
    scene_.label(name + "/text", line, end_of(table.text, em, line.w),
                 {.size = em, .paint = {Ink::kDim}});
  }
}

void Picture::pool() {
  for (const viz::BlockView& block : now_.pool.blocks) {
    viz::block(scene_, now_.pool, block, blocks_.cell(block.id));
  }
  for (const ShownTable& table : now_.tables) {  // a block under the mouse lights its entries
    for (size_t i = 0; i < table.block_ids.size() && cards_.entries; ++i) {
      const std::string& name = table.sequence.name;
      auto& lights = scene_.find(fmt::format("block {}", table.block_ids[i]))->lights;
      lights.push_back(fmt::format("{}/entry {}", name, i));
      lights.push_back(fmt::format("{}/link {}", name, i));
    }
  }
}

void Picture::foot(const Place& at) {
  viz::legend(scene_, at, {{viz::State::kFree, "free"}});
  const int64_t blocks = std::ssize(now_.pool.blocks);
  scene_.label("pool/size", {at.x + at.w / 2, at.y, at.w / 2, at.h},
               fmt::format("{} of {}; \u00D72: two tables hold it", kv::count_of(blocks, "block"),
                           kv::count_of(now_.pool.block_size, "slot")),
               {.size = 12, .paint = {Ink::kDim}, .align = viz::Align::kRight});
}

}  // namespace

const ShownTable* Shown::find(const std::string& name) const {
  const auto found =
      std::ranges::find(tables, name, [](const ShownTable& table) { return table.sequence.name; });
  return found == tables.end() ? nullptr : &*found;
}

viz::Scene sharing_scene(const Shown& now, const viz::Room& room, const std::string& selected) {
  return Picture(now, room, selected).draw();
}

}  // namespace lesson05
