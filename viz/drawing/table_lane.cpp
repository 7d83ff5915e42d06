#include "viz/drawing/table_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

constexpr float kBetween = 6;  // two entries
constexpr float kLeastEntry = 24, kLeastFold = 84, kLeastChip = 4, kReadable = 13;

/// Entries first .. end - 1 of a table.
struct Range {
  int first = 0, end = 0;
  int count() const { return end - first; }
};

class LanePainter {
 public:
  LanePainter(Scene& scene, const TableView& held, std::span<const std::string> texts,
              const LaneStyle& style)
      : scene_(scene),
        held_(held),
        name_(held.sequence.name),
        hue_(held.sequence.hue),
        texts_(texts),
        style_(style),
        size_(held.block_size),
        num_entries_(static_cast<int>(held.block_ids.size())) {
    const float left = kLaneName * style.unit, row = kLaneRow * style.unit;
    const float table_h = style.tokens ? row : style.at.h;
    chips_ = {style.at.x + left, style.at.y, style.at.w - left, row};
    table_ = {chips_.x, style.at.bottom() - table_h, chips_.w, table_h};
    for (const std::string& text : texts) {
      least_text_ = std::max(least_text_, text_width(text, readable(scene.room(), 9)) + 6);
    }
  }

  void draw() {
    const int known = static_cast<int>(texts_.size());
    const int entries = std::max((known + size_ - 1) / size_, num_entries_);
    draw_name();
    if (entries == 0) return;
    const Range open = open_entries(entries);
    const float per = entry_width() + kBetween;
    const float folded = table_.w - per * static_cast<float>(open.count());
    const int num_folded = entries - open.count();
    const float fold_w = kLeastFold * style_.unit;
    const auto room = [&](const Range& range) {
      const float part =
          folded * static_cast<float>(range.count()) / static_cast<float>(std::max(num_folded, 1));
      return range.count() == num_folded ? part : std::clamp(part, fold_w, folded - fold_w);
    };
    float x = fold({0, open.first}, table_.x, room({0, open.first}));
    for (int entry = open.first; entry < open.end; ++entry, x += per) draw_open(entry, x);
    fold({open.end, entries}, x, room({open.end, entries}));
  }

 private:
  float entry_width() const { return cell_ * static_cast<float>(size_); }

  void draw_name() {
    const Place& at = style_.at;
    scene_.box(name_ + "/bar", {at.x, at.y, 4, at.h}, full(hue_)).radius = 2;
    const float w = kLaneName * style_.unit - 14, size = std::min(14 * style_.unit, 0.8f * at.h);
    const Place head{at.x + 10, style_.tokens ? at.y : table_.y, w,
                     style_.tokens ? chips_.h : table_.h};
    scene_.label(name_ + "/name", head, name_, {.size = size})
        .tip(fmt::format("{}: its {} of {} in slots", name_, kv::with_commas(held_.num_tokens),
                         kv::count_of(std::ssize(texts_), "token")))
        .selecting(name_);
    if (!style_.tokens) return;
    scene_.label(name_ + "/table", {head.x, table_.y, w, table_.h}, "table",
                 {.size = 11 * style_.unit, .paint = {Ink::kDim}});
  }

  /// The entries that are shown with their tokens, and the width of their cells: all entries if
  /// they fit, else those that there is room for.
  Range open_entries(int entries) {
    if (!style_.tokens) return {};
    for (const float least : {std::max(least_text_, kReadable), kLeastChip}) {
      const float per = least * static_cast<float>(size_) + kBetween;
      int count = std::min(entries, static_cast<int>(table_.w / per));
      if (count < entries) {
        count = std::min(count, static_cast<int>((table_.w - 2 * kLeastFold * style_.unit) / per));
      }
      if (count < 1) continue;
      const bool all = count == entries;
      cell_ = !all ? least
                   : std::min((table_.w / static_cast<float>(entries) - kBetween) /
                                  static_cast<float>(size_),
                              std::max(least, 58 * style_.unit));
      const int first = std::clamp(style_.focus - count / 2, 0, entries - count);
      return {first, first + count};
    }
    return {};
  }

  void draw_open(int entry, float x) {
    for (int i = 0; i < size_; ++i) {
      const Place cell{x + cell_ * static_cast<float>(i), chips_.y, cell_, chips_.h};
      draw_token(entry * size_ + i, Place{cell.x + 0.75f, cell.y, cell.w - 1.5f, cell.h});
    }
    if (entry < num_entries_) draw_entry(entry, {x, table_.y, entry_width(), table_.h});
  }

  void draw_token(int token, const Place& at) {
    const auto known = static_cast<int>(texts_.size());
    const std::string id = fmt::format("{}/token {}", name_, token);
    const bool has_slot = token < held_.num_tokens;
    Shape& box = scene_.box(id, at, {});
    dress(box, token < known ? State::kInUse : State::kFree, token < known ? hue_ : -1);
    box.radius = 3;
    if (token >= known) return;
    if (!has_slot) {
      box.dashed_edge().fill = {};
      box.tip(fmt::format("token {} of {}: drawn, no slot yet", token, name_));
    }
    if (cell_ < (scene_.room().w <= kTextWidth ? least_text_ : std::min(least_text_, kReadable)))
      return;
    scene_.label(id + "/text", at.inset(1), texts_[static_cast<size_t>(token)],
                 {.size = std::min(13 * style_.unit, 0.6f * at.h), .align = Align::kCentre}, 8);
  }

  void draw_entry(int entry, const Place& at) {
    const std::string id = fmt::format("{}/entry {}", name_, entry);
    const int32_t block = block_of(entry);
    Shape& box = dress(scene_.box(id, at, {}), State::kInUse, hue_);
    box.tip(fmt::format("{}, table entry {}: block {}", name_, entry, block));
    scene_.label(id + "/id", at, std::to_string(block),
                 {.size = std::min(14 * style_.unit, 0.75f * at.h), .align = Align::kCentre});
  }

  int32_t block_of(int entry) const { return held_.block_ids[static_cast<size_t>(entry)]; }

  /// Entries without their tokens, in `room` points at most. Returns where they end.
  float fold(Range range, float x, float room) {
    range.end = std::min(range.end, num_entries_);
    if (range.count() <= 0) return x;
    const auto count = static_cast<float>(range.count());
    const float begin = x;
    if (count * (kLeastEntry + 3) <= room) {
      const float w = std::min(34 * style_.unit, room / count - 3);
      for (int entry = range.first; entry < range.end; ++entry, x += w + 3) {
        draw_entry(entry, {x, table_.y, w, table_.h});
      }
    } else {
      x = draw_runs(range, x, room);
    }
    if (style_.tokens) draw_bar(range, {begin, chips_.y, x - 3 - begin, chips_.h});
    return x + 3;
  }

  void draw_bar(const Range& range, const Place& at) {
    const int last = std::min(range.end * size_, held_.num_tokens) - 1;
    const std::string id = fmt::format("{}/folded {}", name_, range.first);
    scene_.box(id, at, soft(hue_), full(hue_)).thickness = 1;
    const std::string text = fmt::format("tokens {} to {}", range.first * size_, last);
    if (text_width(text, readable(scene_.room(), 9)) > at.w - 2) return;
    scene_.label(id + "/text", at.inset(1), text,
                 {.size = 11 * style_.unit, .align = Align::kCentre});
  }

  std::string numbers_of(const Range& run, bool says_blocks) const {
    const int32_t first = block_of(run.first);
    if (run.count() == 1) return fmt::format("{}{}", says_blocks ? "block " : "", first);
    return fmt::format("{}{} to {}", says_blocks ? "blocks " : "", first, block_of(run.end - 1));
  }

  /// Block numbers that follow each other in one box. Without room for that, how many there are.
  float draw_runs(const Range& range, float x, float room) {
    std::vector<Range> runs;
    for (int entry = range.first; entry < range.end; ++entry) {
      if (entry == range.first || block_of(entry) != block_of(entry - 1) + 1) {
        runs.push_back({entry, entry});
      }
      ++runs.back().end;
    }
    const float size = readable(scene_.room(), std::min(12 * style_.unit, 0.8f * table_.h));
    std::vector<std::string> texts;
    float least = 0;
    for (const bool says_blocks : {true, false}) {
      texts.clear();
      least = 0;
      for (const Range& run : runs) {
        texts.push_back(numbers_of(run, says_blocks));
        least += text_width(texts.back(), size) + 11;
      }
      if (least <= room) break;
    }
    if (least > room) {
      runs = {range};
      texts = {kv::count_of(range.count(), "block")};
      least = text_width(texts[0], size) + 11;
    }
    const float share = static_cast<float>(range.count()) / static_cast<float>(style_.pool_blocks);
    const float more = std::max(0.0f, std::min(room, share * table_.w) - least);
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string id = fmt::format("{}/run {}", name_, runs[i].first);
      const float part = static_cast<float>(runs[i].count()) / static_cast<float>(range.count());
      const float w = std::min(text_width(texts[i], size) + 8 + more * part, room - 3);
      const Place at{x, table_.y, w, table_.h};
      std::vector<std::string> blocks;
      for (int entry = runs[i].first; entry < runs[i].end; ++entry) {
        blocks.push_back(fmt::format("block {}", block_of(entry)));
      }
      dress(scene_.box(id, at, {}), State::kInUse, hue_)
          .lighting(std::move(blocks))
          .tip(fmt::format("{}, table entries {} to {}: {}", name_, runs[i].first, runs[i].end - 1,
                           texts[i]));
      scene_.label(id + "/ids", at.inset(1), texts[i], {.size = size, .align = Align::kCentre});
      x += w + 3;
    }
    return x;
  }

  Scene& scene_;
  const TableView& held_;
  const std::string& name_;
  const int hue_;
  const std::span<const std::string> texts_;
  const LaneStyle& style_;
  const int size_, num_entries_;
  Place chips_, table_;    // the rows, without the name
  float least_text_ = 10;  // a cell of this width can be read
  float cell_ = 0;
};

}  // namespace

void lane(Scene& scene, const TableView& table, std::span<const std::string> texts,
          const LaneStyle& style) {
  LanePainter(scene, table, texts, style).draw();
}

}  // namespace viz
