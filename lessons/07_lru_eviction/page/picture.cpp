#include "picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lessons/07_lru_eviction/block_pool.h"
#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"

namespace lesson07 {
namespace {

using viz::Place;
using viz::Span;

constexpr float kGap = 6, kHead = 20, kName = 20;
float legend_height(const viz::Room& room) { return viz::is_narrow(room) ? 46 : 22; }
float reason_height(const viz::Room& room) { return room.w <= viz::kTextWidth ? 56 : 38; }
constexpr int kMostTiles = 64;  // more are cells without words
constexpr float kLongest = 5;   // seconds

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

const viz::BlockView& block_of(const Shown& shown, int32_t id) {
  return shown.pool.blocks.at(id - BlockPool::kNullBlock - 1);
}

/// Times of a tile's motion, in seconds.
struct Move {
  std::optional<Span> struck = {};  // its old words are struck out
  Span travels = {};                // from the queue to a request, or back
  Span written = {};                // new words come
  size_t num_kept = SIZE_MAX;       // words that stay
};
/// The motion between two pictures.
struct Story {
  std::map<int32_t, Move> moves;
  Span closes_up = {0, 0};  // the rest of the queue
  float seconds = 0;

  Span part(const Span& span) const { return {span.begin / seconds, span.end / seconds}; }
};

/// The motion of a block that leaves the queue for new tokens, or gets more tokens in its table.
Move taken(const viz::BlockView& was, bool was_free, float at) {
  Move move;
  move.num_kept = was_free ? 0 : was.tokens.size();
  if (!was_free) {
    move.written = {at, at + 0.4f};
    return move;
  }
  if (!was.tokens.empty()) {
    move.struck = {at, at + 0.8f};
    at = move.struck->end;
  }
  move.travels = {at, at + 0.5f};
  move.written = {at + 0.45f, at + 0.95f};
  return move;
}

/// Hits are pinned first, then blocks are taken from the front, one after the other. The queue
/// closes up when all of them have left it; what is freed comes after that.
Story story_of(const Shown& before, const Shown& now) {
  Story story;
  float at = 0;
  if (before.pool.blocks.size() == now.pool.blocks.size()) {
    for (size_t t = 0; t < now.tables.size(); ++t) {
      for (int i = 0; i < now.num_found[t]; ++i) {
        const int32_t id = now.tables[t].block_ids[i];
        if (!contains(before.queue, id)) continue;
        story.moves[id] = {.travels = {at, at + 0.6f}};
        at += 0.35f;
      }
    }
    if (at > 0) at += 0.3f;
    for (const viz::TableView& table : now.tables) {
      for (const int32_t id : table.block_ids) {
        const viz::BlockView& was = block_of(before, id);
        const bool was_free = contains(before.queue, id);
        if (story.moves.contains(id) || was.tokens == block_of(now, id).tokens) continue;
        const Move& move = story.moves[id] = taken(was, was_free, at);
        at = was_free ? move.travels.begin + 0.3f : move.written.end;
      }
    }
    for (const auto& [id, move] : story.moves) {
      if (!contains(before.queue, id)) continue;
      story.closes_up.begin = std::max(story.closes_up.begin, move.travels.end);
      at = story.closes_up.end = story.closes_up.begin + 0.4f;
    }
    for (const int32_t id : now.queue) {
      if (contains(before.queue, id)) continue;
      story.moves[id] = {.travels = {at, at + 0.6f}};
      at += 0.25f;
    }
  }
  story.seconds = std::max(0.45f, story.closes_up.end);
  for (const auto& [id, move] : story.moves) {
    story.seconds = std::max({story.seconds, move.travels.end, move.written.end});
  }
  if (story.closes_up.end == 0) story.closes_up = {0, story.seconds};
  return story;
}

/// Tiles of one size: places in the queue above, those of the requests below.
struct Tiles {
  int columns = 1;
  float w = 0, h = 0, reason = 0;
  int queue_rows = 1, table_rows = 1;
  float bottom_of_queue() const { return kHead + static_cast<float>(queue_rows) * (h + kGap); }
  Place in_queue(int i) const { return at(i, kHead, h + kGap); }
  Place in_tables(int i) const {
    return at(i, bottom_of_queue() + reason + kName, h + kGap + kName);
  }

 private:
  Place at(int i, float top, float pitch) const {
    return {static_cast<float>(i % columns) * (w + kGap),
            top + static_cast<float>(i / columns) * pitch, w, h};
  }
};

Tiles fit_tiles(const viz::Room& room, const Shown& shown) {
  const auto count = static_cast<int>(shown.pool.blocks.size());
  int held = 1;
  for (const viz::TableView& table : shown.tables) held += static_cast<int>(table.block_ids.size());
  const bool large_words = viz::is_in_text(room) && shown.max_queued > 0;
  const int longest = large_words ? static_cast<int>(shown.queue.size()) : shown.max_queued;
  Tiles best;
  for (int columns = large_words ? 5 : 1; columns <= (large_words ? 5 : count); ++columns) {
    const int queued = longest > 0 ? longest : large_words ? 1 : count;
    Tiles tiles{.columns = columns, .queue_rows = (queued + columns - 1) / columns};
    tiles.table_rows = std::max(tiles.queue_rows, (held - 1 + columns - 1) / columns);
    const auto rows = static_cast<float>(tiles.queue_rows + tiles.table_rows);
    const float names = kName * static_cast<float>(tiles.table_rows);
    tiles.w = (room.w + kGap) / static_cast<float>(columns) - kGap;
    tiles.reason = reason_height(room);
    tiles.h = (room.h - kHead - tiles.reason - legend_height(room) - names) / rows - kGap;
    tiles.w = std::min(tiles.w, 2.6f * tiles.h);
    tiles.h = std::min(tiles.h, 2.0f * tiles.w);
    if (tiles.w > 0 && tiles.w * tiles.h > best.w * best.h) best = tiles;
  }
  return best;
}

/// Draws one picture.
class Picture {
 public:
  Picture(viz::Scene& scene, const Shown& shown, const Story& story)
      : scene_(scene), shown_(shown), story_(story) {}

  void draw_tiles() {
    const Tiles tiles = fit_tiles(scene_.room(), shown_);
    draw_ends(tiles.bottom_of_queue());
    if (shown_.queue.empty()) {
      Place at = tiles.in_queue(0);
      at.w = std::max(at.w, viz::text_width(shown_.none, 14) + 14);
      scene_.label("queue/none", at, shown_.none, {.size = 14, .paint = {viz::Ink::kDim}}, 6)
          .during({0.8f, 1});
    }
    for (size_t i = 0; i < shown_.queue.size(); ++i) {
      draw_tile(shown_.queue[i], tiles.in_queue(static_cast<int>(i)));
    }
    int first = 0;
    for (size_t t = 0; t < shown_.tables.size(); ++t) {
      draw_table(tiles, t, first);
      first += static_cast<int>(shown_.tables[t].block_ids.size());
    }
  }

  /// Draws a large pool: cells, and tables that name runs of blocks.
  void draw_cells() {
    const viz::Room& room = scene_.room();
    const float tables = 30 * static_cast<float>(std::max<size_t>(shown_.tables.size(), 3));
    const float bottom = room.h - reason_height(room) - legend_height(room) - tables;
    draw_ends(bottom);
    const viz::Grid grid =
        viz::fit(static_cast<int>(shown_.pool.blocks.size()), {0, kHead, room.w, bottom - kHead},
                 {.gap = 2, .flattest = 0.8f, .widest = 2.5f});
    for (size_t i = 0; i < shown_.queue.size(); ++i) {
      draw_tile(shown_.queue[i], grid.cell(static_cast<int>(i)));
    }
    float y = bottom + reason_height(room);
    for (const viz::TableView& table : shown_.tables) {
      viz::table(scene_, table, {0, y, room.w, 28});
      y += 30;
    }
  }

 private:
  /// Draws the labels at the queue's ends and the line below the queue.
  void draw_ends(float bottom) {
    const float w = scene_.room().w, half = viz::is_narrow(scene_.room()) ? 0.62f * w : w / 2 - 60;
    const viz::Type type{.size = 13, .paint = {viz::Ink::kDim}};
    scene_.label("queue/front", {0, 0, half, kHead - 2}, shown_.front, type);
    scene_.label("queue/back", {half, 0, w - half, kHead - 2}, shown_.back,
                 {.size = 13, .paint = {viz::Ink::kDim}, .align = viz::Align::kRight});
    scene_.line("queue/line", 0, bottom, w, bottom, viz::paint(viz::Ink::kLine), 2);
  }

  void draw_tile(int32_t id, const Place& at) {
    const size_t first = scene_.shapes().size();
    // What a tile passes does not shine through.
    scene_.box(fmt::format("tile {}", id), at, viz::paint(viz::Ink::kGround));
    viz::block(scene_, shown_.pool, block_of(shown_, id), at);
    const auto found = story_.moves.find(id);
    const bool moves = found != story_.moves.end();
    const Span when = story_.part(moves ? found->second.travels : story_.closes_up);
    for (viz::Shape& shape : scene_.since(first)) shape.during(when);
    if (!moves) return;
    const auto& [begin, end] = found->second.written;
    const size_t count = block_of(shown_, id).tokens.size(), kept = found->second.num_kept;
    for (size_t i = kept; i < count; ++i) {
      viz::Shape* const word = scene_.find(fmt::format("slot {}/{}/token", id, i));
      const float step = (end - begin) / static_cast<float>(count - kept);
      const float at_word = begin + step * static_cast<float>(i - kept);
      if (word != nullptr) word->during(story_.part({at_word, at_word + step}));
    }
  }

  void draw_table(const Tiles& tiles, size_t t, int first) {
    const viz::TableView& table = shown_.tables[t];
    const std::string& name = table.sequence.name;
    const auto count = static_cast<int>(table.block_ids.size());
    for (int i = 0; i < count; ++i) {
      const Place at = tiles.in_tables(first + i);
      const bool begins_row = i == 0 || (first + i) % tiles.columns == 0;
      if (begins_row) {
        const int in_row = std::min(count - i, tiles.columns - (first + i) % tiles.columns);
        draw_name(t, i,
                  {at.x, at.y - kName + 1, at.w + static_cast<float>(in_row - 1) * (at.w + kGap),
                   kName - 4});
      }
      const int32_t id = table.block_ids[i];
      if (placed_.insert(id).second) {
        draw_tile(id, at);
        continue;
      }
      const std::string entry = fmt::format("{}/entry {}", name, i);
      scene_.box(entry, at, viz::soft(table.sequence.hue), viz::full(table.sequence.hue))
          .lighting({fmt::format("block {}", id)})
          .tip(fmt::format("{} reads block {}, too", name, id));
      viz::twin_bar(scene_, entry + "/twin", at);
      if (at.w < 30 || at.h < 20) continue;
      scene_.label(entry + "/id", at.inset(6), std::to_string(id),
                   {.size = 14, .align = viz::Align::kCentre}, 6);
    }
  }

  /// A ribbon over the tiles of a request in one row.
  void draw_name(size_t t, int first_block, const Place& at) {
    const viz::SequenceView& sequence = shown_.tables[t].sequence;
    const std::string id = fmt::format("request {}/{}", sequence.name, first_block);
    scene_.box(id, at, viz::soft(sequence.hue), viz::full(sequence.hue))
        .selecting(sequence.name)
        .tip("request " + sequence.name + ": a click selects it");
    std::string text = sequence.name;
    const std::string cut = shown_.cut.empty() ? "" : shown_.cut[t];
    if (!cut.empty() && viz::text_width(text + "   " + cut, 12) < at.w - 8) text += "   " + cut;
    const std::string more = fmt::format("{}   \u2713 {} found", text, shown_.num_found[t]);
    if (shown_.num_found[t] > 0 && viz::text_width(more, 12) < at.w - 8) text = more;
    if (at.w > 20) {
      scene_.label(id + "/name", {at.x + 4, at.y, at.w - 8, at.h}, text, {.size = 12});
    }
  }

  viz::Scene& scene_;
  const Shown& shown_;
  const Story& story_;
  std::set<int32_t> placed_;  // blocks drawn in a table
};

void draw_picture(viz::Scene& scene, const Shown& shown, const Story& story) {
  Picture picture(scene, shown, story);
  if (shown.pool.blocks.size() > kMostTiles && shown.max_queued == 0) {
    picture.draw_cells();
  } else {
    picture.draw_tiles();
  }
}

/// Shows the old words of each evicted block, struck out at their old place, before they vanish.
void strike_out(viz::Scene& scene, const Shown& before, const Story& story) {
  viz::Scene old(scene.room());
  draw_picture(old, before, {.moves = {}, .closes_up = {}, .seconds = 1});
  for (const auto& [id, move] : story.moves) {
    if (!move.struck) continue;
    const Span span = story.part(*move.struck);
    const viz::Shape* const tile = old.find(fmt::format("block {}", id));
    if (tile == nullptr) continue;
    viz::Shape crossed = *tile;
    viz::dress(crossed, viz::State::kEvicted);
    scene.ghost(crossed, crossed.at, span);
    for (size_t i = 0; i < block_of(before, id).tokens.size(); ++i) {
      const std::string word = fmt::format("slot {}/{}/token", id, i);
      const viz::Shape* const shape = old.find(word);
      if (shape == nullptr) continue;
      viz::Shape gone = *shape;
      scene.ghost(gone, gone.at, {-viz::kBlink, span.begin});  // whole until then
      gone.struck = true;
      scene.ghost(gone, gone.at, span);
      scene.leaves(word, shape->at, {span.end - 0.01f, span.end});
    }
  }
}

/// Writes beside the legend how much the picture leaves out, in the longest text that fits.
void draw_more(viz::Scene& scene, const Shown& shown) {
  const viz::Room& room = scene.room();
  float used = 0;
  for (const viz::Shape& shape : scene.shapes()) {
    if (shape.id.starts_with("legend/")) used = std::max(used, shape.at.right());
  }
  for (const std::string& words : shown.more) {
    const float wide = viz::text_width(words, 13) + 2;
    if (used + 16 + wide > room.w) continue;
    scene.label("more",
                {room.w - wide, room.h - legend_height(room) + 2, wide, legend_height(room) - 2},
                words, {.size = 13});
    return;
  }
}

}  // namespace

viz::Scene queue_scene(const viz::Room& room, const Shown& before, const Shown& now,
                       const std::string& reason, std::vector<viz::LegendEntry> legend) {
  viz::Scene scene(room);
  const Story story = story_of(before, now);
  scene.lasts(std::min(story.seconds, kLongest));
  draw_picture(scene, now, story);
  strike_out(scene, before, story);
  const viz::Shape* const line = scene.find("queue/line");
  const size_t first = scene.shapes().size();
  viz::note(scene, "reason", {0, line->at.y + 4, room.w, reason_height(room) - 6}, reason);
  for (viz::Shape& shape : scene.since(first)) shape.during({0, 0.1f});
  legend.push_back({.state = viz::State::kInUse, .name = "shared", .has_twin = true});
  viz::legend(scene, {0, room.h - legend_height(room) + 2, room.w, legend_height(room) - 2},
              legend);
  draw_more(scene, now);
  return scene;
}

}  // namespace lesson07
