#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "common/hash.h"
#include "kernels/attention/contract.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/text_room.h"
#include "walk.h"

namespace lesson04 {

using kv::attention::kGroupTiles;
using kv::attention::kTileTokens;
using viz::Align;
using viz::Ink;
using viz::Place;
using viz::Shape;
using viz::Span;

constexpr float kName = 62;  // width of the column of names, times the unit

/// The picture from top to bottom: the table with tiles and groups; of a tile the pool, and its
/// keys; m, l and acc; whether other blocks gave the same bits.
class WalkPage::Painter {
 public:
  Painter(const WalkPage& page, const viz::Room& room)
      : page_(page),
        scene_(room),
        step_(page.step()),
        num_tokens_(static_cast<int>(page.tokens_.size())),
        size_(page.options_.block_size),
        in_text_(viz::is_in_text(room)),
        stacked_(room.w <= viz::kTextWidth),  // the pool is above the keys
        unit_(stacked_ ? 1 : std::clamp(std::min(room.w / 900, room.h / 560), 0.6f, 1.7f)) {}

  viz::Scene draw() {
    const viz::Room& room = scene_.room();
    const float x = 4, w = room.w - 8, gap = 9 * unit_;
    const float map_h = 71 * unit_, foot = 24 * unit_;
    const bool same_bits = page_.sizes_.size() > 1;
    draw_map({x + kName * unit_, 2, w - kName * unit_, map_h});
    const float top = 2 + map_h + gap;
    const Place rest{x, top, w, room.h - top - gap - (same_bits ? 2 : 1) * foot};
    if (about(Kind::kTile)) {
      draw_tile(rest, gap);
    } else {
      draw_sums(scene_, step_, {x, top, w, std::min(rest.h, 300 * unit_)}, unit_);
    }
    if (same_bits) draw_bits({x, room.h - 2 * foot, w, foot});
    viz::legend(scene_, {x, room.h - foot, w, foot},
                {{.state = viz::State::kInUse, .name = "in this step", .edge = Ink::kMark},
                 {viz::State::kInUse, "done", kHue},
                 {viz::State::kFree, "to come"}});
    move();
    scene_.lasts(!page_.moved_on_           ? 0.6f
                 : about(Kind::kTile)       ? 1.8f
                 : step_.before.acc.empty() ? 0.8f
                                            : 1.4f);
    return std::move(scene_);
  }

 private:
  /// The blocks of a tile, its keys, and what they add to their group.
  void draw_tile(const Place& at, float gap) {
    const float sums_h = (stacked_ ? 0.23f : 0.33f) * at.h, keys_h = at.h - sums_h - gap;
    const float pool_w = 0.2f * at.w, pool_h = 82;
    if (stacked_) {
      draw_pool({at.x, at.y, at.w, pool_h});
      draw_keys({at.x, at.y + pool_h + gap, at.w, keys_h - pool_h - gap});
    } else {
      draw_pool({at.x, at.y, pool_w, keys_h});
      draw_keys({at.x + pool_w + 2 * gap, at.y, at.w - pool_w - 2 * gap, keys_h});
    }
    draw_sums(scene_, step_, {at.x, at.bottom() - sums_h, at.w, sums_h}, unit_);
  }

  float x_of(const Place& at, int token) const {
    const float wide = std::min(at.w / static_cast<float>(num_tokens_), 14 * unit_);
    return at.x + wide * static_cast<float>(token);
  }
  Place between(const Place& at, float y, float h, int first, int end) const {
    const float from = x_of(at, first), to = x_of(at, std::min(end, num_tokens_));
    return {from, y, std::max(to - from - 2, 0.5f), h};
  }
  int num_read() const { return step_.first_token + step_.num_tokens; }
  bool about(Kind kind) const { return step_.kind == kind; }
  float least(float size) const { return viz::readable(scene_.room(), size); }

  void name(const std::string& id, float y, float h, const std::string& text) {
    scene_.label(id, {4, y, kName * unit_ - 6, h}, text,
                 {.size = 12 * unit_, .paint = {Ink::kDim}});
  }

  /// The sequence's tokens from left to right: table entries, and under them tiles and groups.
  void draw_map(const Place& at) {
    const float h = 21 * unit_, pitch = 25 * unit_;
    name("map/table", at.y, h, "table");
    draw_entries(at, h);
    name("map/tiles", at.y + pitch, h, "tiles");
    name("map/groups", at.y + 2 * pitch, h, "groups");
    for (int first = 0, tile = 0; first < num_tokens_; first += kTileTokens, ++tile) {
      const bool now = tile == step_.tile && about(Kind::kTile);
      piece(fmt::format("map tile {}", tile),
            between(at, at.y + pitch, h, first, first + kTileTokens), fmt::format("tile {}", tile),
            tile <= step_.tile, now);
      if (tile % kGroupTiles != 0) continue;
      const int group = tile / kGroupTiles;
      const bool joined = group < step_.group || (group == step_.group && !about(Kind::kTile));
      piece(fmt::format("map group {}", group),
            between(at, at.y + 2 * pitch, h, first, first + kTileTokens * kGroupTiles),
            fmt::format("group {}", group), joined, group == step_.group && !about(Kind::kDivide));
    }
  }

  /// Draws one piece; it has the sequence's colour when it is done.
  void piece(const std::string& id, const Place& at, const std::string& text, bool done, bool now) {
    Shape& box = scene_.box(id, at, {}, viz::paint(Ink::kLine));
    dress(box, done || now ? viz::State::kInUse : viz::State::kFree, done || now ? kHue : -1);
    if (now) box.edged(viz::paint(Ink::kMark), 2.5f);
    box.radius = 3;
    const std::string shown =
        viz::text_width(text, least(9)) < at.w - 4 ? text : text.substr(text.rfind(' ') + 1);
    if (viz::text_width(shown, least(8)) > at.w - 2) return;
    scene_.label(id + "/name", at.inset(1), shown, {.size = 12 * unit_, .align = Align::kCentre},
                 7);
  }

  void draw_entries(const Place& at, float h) {
    const std::vector<int32_t>& ids = page_.walk_->block_table;
    const float wide = x_of(at, size_) - at.x;
    const int first = step_.first_token / size_;
    const int end = first + static_cast<int>(step_.block_ids.size());
    if (wide < 4) {  // too narrow to be told apart: one ring for the tile's entries
      dress(scene_.box("entries", between(at, at.y, h, 0, num_tokens_), {}), viz::State::kFree)
          .tip(fmt::format("{} entries", ids.size()));
      dress(scene_.box("entries/read", between(at, at.y, h, 0, num_read()), {}), viz::State::kInUse,
            kHue);
      if (!about(Kind::kTile)) return;
      ring("ring 0", between(at, at.y, h, step_.first_token, step_.first_token + step_.num_tokens));
      return;
    }
    for (int entry = 0; entry < static_cast<int>(ids.size()); ++entry) {
      const Place place = between(at, at.y, h, entry * size_, (entry + 1) * size_);
      const std::string id = fmt::format("entry {}", entry);
      const int32_t block = ids[entry];
      const bool read = entry * size_ < num_read();
      Shape& box = dress(scene_.box(id, place, {}), read ? viz::State::kInUse : viz::State::kFree,
                         read ? kHue : -1);
      box.tip(fmt::format("table entry {}: block {}", entry, block))
          .lighting({fmt::format("block {}", block)});
      box.radius = 2;
      const std::string text = std::to_string(block);
      if (!in_text_ && viz::text_width(text, 8) < place.w - 2) {
        scene_.label(id + "/id", place.inset(1), text,
                     {.size = 12 * unit_, .align = Align::kCentre}, 7);
      }
    }
    for (int entry = first; entry < end && about(Kind::kTile); ++entry) {
      ring(fmt::format("ring {}", entry - first),
           between(at, at.y, h, entry * size_, (entry + 1) * size_));
    }
  }

  void ring(const std::string& id, const Place& at) {
    scene_.box(id, at.inset(-1), {}).edged(viz::paint(Ink::kMark), 2.2f).on_top().during({0, 0.2f});
  }

  /// The pool, in which the blocks do not lie in order.
  void draw_pool(const Place& at) {
    const std::vector<int32_t>& ids = page_.walk_->block_table;
    name("pool/name", at.y, 16 * unit_, "pool");
    viz::PoolView view =
        viz::pool_view(size_, 0, static_cast<int>(ids.size()), [](int32_t) { return 1; });
    view.show_refs = false;
    view.add({"the sequence", kHue}, ids, num_tokens_);
    for (const int32_t id : step_.block_ids) view.at(id).changed = true;
    const auto to_come = std::span(ids).subspan(static_cast<size_t>(num_read() + size_ - 1) /
                                                static_cast<size_t>(size_));
    for (const int32_t id : to_come) {
      view.at(id) = {.id = id, .ref_cnt = 1, .state = viz::State::kFree};
    }
    viz::pool(scene_, view, {at.x, at.y + 18 * unit_, at.w, at.h - 18 * unit_});
    for (const int32_t id : to_come) {
      scene_.find(fmt::format("block {}", id))->tip(fmt::format("block {}: to come", id));
    }
  }

  /// Each key of the tile: a bar for its weight, and its word.
  void draw_keys(const Place& at) {
    const float head = 18 * unit_;
    const float most = std::max(1.0f, *std::ranges::max_element(step_.weights));
    scene_
        .label("keys/name", {at.x, at.y, at.w, head},
               fmt::format("tile {}: weights exp(score - m), up to {:.1f}", step_.tile,
                           static_cast<double>(most)),
               {.size = 12 * unit_, .paint = {Ink::kDim}}, 7)
        .during({0.4f, 0.5f});
    const int in_row = viz::is_narrow(scene_.room()) ? 8 : 16;
    const int rows = (std::min(num_tokens_, kTileTokens) + in_row - 1) / in_row;
    const float pitch = (at.h - head) / static_cast<float>(rows);
    const float w = at.w / static_cast<float>(in_row);
    for (int first = 0; first < step_.num_tokens;) {
      // Keys that lie in one block and stand in one row.
      const int in_block = size_ - (step_.first_token + first) % size_;
      const int count = std::min({in_block, in_row - first % in_row, step_.num_tokens - first});
      const Place part{at.x + w * static_cast<float>(first % in_row),
                       at.y + head + pitch * static_cast<float>(first / in_row),
                       w * static_cast<float>(count) - 3, pitch - 4 * unit_};
      draw_part(first, part);
      for (int key = first; key < first + count; ++key) {
        const Place cell{at.x + w * static_cast<float>(key % in_row), part.y, w - 3, part.h};
        draw_key(key, cell, most);
      }
      first += count;
    }
  }

  void draw_part(int key, const Place& at) {
    const int32_t block = page_.walk_->block_table[(step_.first_token + key) / size_];
    const std::string id = fmt::format("part {}", step_.first_token + key);
    scene_.box(id, at, viz::paint(Ink::kPanel), viz::paint(Ink::kLine))
        .lighting({fmt::format("block {}", block)})
        .during({0.4f, 0.5f});
    parts_.push_back({block, at});
    const std::string wide = fmt::format("block {}", block), slim = std::to_string(block);
    scene_
        .label(id + "/block", {at.x + 3, at.y + 1, at.w - 6, 12 * unit_},
               viz::text_width(wide, least(9)) < at.w - 8 ? wide : slim,
               {.size = 10 * unit_, .paint = {Ink::kDim}}, 6)
        .during({0.4f, 0.5f});
  }

  void draw_key(int key, const Place& at, float most) {
    const int token = step_.first_token + key;
    const size_t i = key;
    const float line = 13 * unit_;
    const float foot = in_text_ ? 0 : line;  // a text has no room for words
    const Place bars{at.x + 0.2f * at.w, at.y + line, 0.6f * at.w, at.h - line - foot - 2};
    const float h = std::max(bars.h * step_.weights[i] / most, 0.5f);
    Shape& bar = scene_.box(fmt::format("bar {}", key), {bars.x, bars.bottom() - h, bars.w, h},
                            viz::full(kHue));
    bar.during({0.55f, 0.75f}).radius = 1;
    bar.tip(fmt::format("token {}, \"{}\": score {:.4f}, weight {:.4f}", token,
                        page_.texts_[token_at(key)], static_cast<double>(step_.scores[i]),
                        static_cast<double>(step_.weights[i])));
    const std::string& word = page_.texts_[token_at(key)];
    if (in_text_ || viz::text_width(word, least(5)) > at.w) return;
    scene_
        .label(fmt::format("word {}", token), {at.x, at.bottom() - foot, at.w, line}, word,
               {.size = 11 * unit_, .align = Align::kCentre}, 5)
        .during({0.4f, 0.55f});
  }
  size_t token_at(int key) const { return step_.first_token + key; }

  /// Which sizes of blocks gave the same numbers, each compared with ==.
  void draw_bits(const Place& at) {
    const std::vector<float>& out = page_.walk_->steps.back().out;
    const float h = at.h - 4, size = 12 * unit_;
    float x = at.x;
    const auto text = [&](const std::string& id, const std::string& words, bool dim) -> Shape& {
      const float w = viz::text_width(words, size) + 3;
      Shape& label = scene_.label(id, {x, at.y, w, h}, words,
                                  {.size = size, .paint = {dim ? Ink::kDim : Ink::kText}});
      x += w + 6 * unit_;
      return label;
    };
    const bool narrow = viz::is_narrow(scene_.room());
    text("bits/name", narrow ? "bits" : "bits of out", true);
    if (!narrow) {
      text("bits/digest", fmt::format("{:016x}", kv::xxh64(std::as_bytes(std::span(out)))), false);
    }
    text("bits/with", "with blocks of", true);
    for (size_t i = 0; i < page_.sizes_.size(); ++i) {
      const std::string words = std::to_string(page_.sizes_[i]), id = "bits/size " + words;
      if (i > 0) text(id + "/same", "==", false).during({0.7f, 0.9f});
      const float w = viz::text_width(words, size) + 14 * unit_;
      dress(scene_.box(id, {x, at.y, w, h}, {}), viz::State::kInUse, kHue)
          .during({0.5f, 0.7f})
          .radius = 3;
      scene_.label(id + "/text", {x, at.y, w, h}, words, {.size = size, .align = Align::kCentre})
          .during({0.5f, 0.7f});
      x += w + 6 * unit_;
    }
  }

  /// The blocks of a new tile come from the pool, and a group from the map.
  void move() {
    if (!page_.moved_on_) return;
    const auto send = [&](const std::string& from, const Place& to, const Span& span, size_t n) {
      if (const Shape* shape = scene_.find(from)) {
        Shape ghost = *shape;
        ghost.id = fmt::format("{} on its way {}", from, n);
        const Place at{to.x, to.middle_y() - ghost.at.h / 2, 0, 0};
        scene_.ghost(std::move(ghost), at, span);
      }
    };
    if (about(Kind::kTile)) {
      const auto count = static_cast<float>(parts_.size());
      for (size_t i = 0; i < parts_.size(); ++i) {
        const float begin = 0.15f + 0.15f * static_cast<float>(i) / count;
        const std::string block = fmt::format("block {}", parts_[i].block);
        send(block, parts_[i].at, {begin, begin + 0.2f}, i);
        send(block + "/id", parts_[i].at, {begin, begin + 0.2f}, i);
      }
      return;
    }
    const Shape* row = scene_.find("row 1/name");
    const std::string from = fmt::format("map group {}/name", step_.group);
    if (about(Kind::kGroup) && scene_.find(from)) send(from, row->at, {0.1f, 0.5f}, 0);
  }

  struct Part {
    int32_t block;
    Place at;
  };

  const WalkPage& page_;
  viz::Scene scene_;
  const WalkStep& step_;
  const int num_tokens_, size_;
  const bool in_text_, stacked_;
  const float unit_;
  std::vector<Part> parts_;
};

viz::Scene WalkPage::scene(const viz::Room& room) {
  return walk_ ? Painter(*this, room).draw()
               : viz::empty_scene(room, "No walk yet: \"Walk\" begins one.");
}

}  // namespace lesson04
