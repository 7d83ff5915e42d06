#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"
#include "windows.h"

namespace lesson10 {

using viz::Align;
using viz::Ink;
using viz::paint;
using viz::Place;
using viz::Span;
using viz::State;

constexpr float kLeastWord = 7;   // points; smaller words are not drawn
constexpr float kLeastToken = 9;  // the same of a token's word
constexpr int kLeastTokens = 32;  // that a lane has room for
// Largest sizes in a lane: heights of a table and of the name, and the gaps between.
constexpr float kMostRow = 56, kMostRibbon = 20, kLaneGap = 4, kApart = 10;
constexpr float kNarrow = 36;     // width of an entry
constexpr float kFrameName = 12;  // letters of the name below the frame
constexpr float kTokens = 0.6f;   // height of the tokens, of that of a table

/// Requests, each with its tokens, a table for each group, and the window. All lanes have one
/// scale, so that they can be compared.
class Lanes {
 public:
  Lanes(viz::Scene& scene, const WindowsPage& page, const Place& at)
      : page_(page), scene_(scene), at_(at) {
    int entries = lesson03::blocks_for(viz::is_in_text(scene.room()) ? 24 : kLeastTokens, size_);
    for (const Asked& asked : page_.now_.asked) {
      entries = std::max(entries, lesson03::blocks_for(asked.num_tokens() + 1, size_));
    }
    entries = (entries + 3) / 4 * 4;
    unit_ = (at.w - kGroupName) / static_cast<float>(entries * size_);
    const auto rows = static_cast<float>(num_groups_);
    pitch_ = at.h / static_cast<float>(std::max<size_t>(page_.now_.asked.size(), 1));
    gap_ = pitch_ > 30 + 16 * rows ? kLaneGap : 2.0f;
    named_ = num_groups_ > 1 && unit_ * static_cast<float>(size_) >= kNarrow &&
             pitch_ > 60 + 24 * rows + kFrameName;
    const float tall = pitch_ - kApart - gap_ * (rows + 1) - (named_ ? kFrameName + 2 : 0);
    ribbon_ = std::clamp(0.2f * tall, 10.0f, kMostRibbon);
    row_ = std::clamp((tall - ribbon_) / (rows + kTokens), 3.0f, kMostRow);
  }

  void draw() {
    if (page_.now_.asked.empty()) {
      viz::heading(scene_, "empty", {at_.x, at_.y, at_.w, viz::kHeading}, "no request yet");
    }
    float y = at_.y;
    for (const Asked& asked : page_.now_.asked) {
      lane(asked, y);
      y += pitch_;
    }
  }

 private:
  float x_of(int token) const { return at_.x + kGroupName + unit_ * static_cast<float>(token); }

  /// Draws a request: its name, full attention's table, its tokens, the tables of the sliding
  /// groups, and the window over both.
  void lane(const Asked& asked, float y) {
    name(asked, y);
    y += ribbon_ + gap_;
    table(asked, 0, y);
    y += row_ + gap_;
    const float top = y, h = kTokens * row_;
    tokens(asked, {at_.x, y, at_.w, h});
    y += h + gap_;
    for (int group = 1; group < num_groups_; ++group) {
      table(asked, group, y);
      y += row_ + gap_;
    }
    if (num_groups_ > 1) window(asked, top, y - gap_ - top);
  }

  void name(const Asked& asked, float y) {
    const int end = static_cast<int>(asked.tables[0].size()) * size_;
    const float wide = std::clamp(x_of(end) - 3 - at_.x, 200.0f, at_.w);
    std::string words =
        fmt::format("{}: {}", asked.name, kv::count_of(asked.num_tokens(), "token"));
    if (asked.num_found > 0) words += fmt::format(", {} of them found", asked.num_found);
    viz::ribbon(scene_, asked, {at_.x, y, wide, ribbon_}, page_.selected() == asked.name, words);
  }

  /// Draws a cell for each token. Words have one size, and are drawn if all of them can be read.
  void tokens(const Asked& asked, const Place& at) {
    float widest = 0;  // of letters of one point
    for (const int32_t token : asked.tokens) {
      widest = std::max(widest, viz::text_width(page_.word(token), 1));
    }
    const float size = std::min({14.0f, 0.62f * at.h, (unit_ - 5) / std::max(widest, 0.1f)});
    const bool readable = size >= viz::readable(scene_.room(), kLeastToken);
    const Asked* const was = page_.before_.asked.find(asked.name);
    const int known = was == nullptr ? 0 : was->num_tokens();
    if (at.h >= 9) {
      scene_.label(asked.name + "/tokens", {at.x, at.y, kGroupName - 6, at.h}, "tokens",
                   {.size = std::min(12.0f, at.h), .paint = {Ink::kDim}}, 7);
    }
    for (int t = 0; t < asked.num_tokens(); ++t) {
      const std::string id = fmt::format("{}/token {}", asked.name, t);
      const std::string word = page_.word(asked.tokens[t]);
      const Place cell{x_of(t), at.y, std::max(unit_ - (unit_ > 6 ? 2.0f : 0.5f), 0.5f), at.h};
      const Span when = t < known ? Span{} : Span{0.7f, 1};
      viz::Shape& box = scene_.box(id, cell, viz::soft(asked.hue));
      box.tip(fmt::format("token {}: {}", t, word)).during(when).radius = 2;
      if (readable) number(id + "/word", cell, word, size).during(when);
    }
  }

  /// Draws a row: the group's name, and an entry for each block of tokens.
  void table(const Asked& asked, int group, float y) {
    const std::vector<int32_t>& ids = asked.tables[group];
    const std::string id = fmt::format("{}/{}", asked.name, group);
    if (row_ >= 9) {
      scene_.label(id + "/name", {at_.x, y, kGroupName - 6, row_}, page_.group_name(group),
                   {.size = std::min(13.0f, row_)}, 7);
    }
    for (int i = 0; i < std::ssize(ids); ++i) {
      const Place place{x_of(i * size_), y, unit_ * static_cast<float>(size_) - 3, row_};
      if (ids[i] == BlockPool::kNullBlock) {
        null_entry(fmt::format("{}/null {}", id, i), place);
      } else {
        entry(asked, group, i, place);
      }
    }
  }

  void entry(const Asked& asked, int group, int index, const Place& at) {
    const size_t g = group;
    const int32_t block = asked.tables[g][index];
    const std::string id = fmt::format("{}/{}/entry {}", asked.name, group, index);
    const int end = (index + 1) * size_;
    const bool found = end <= asked.num_found;
    const bool fell = group > 0 && end <= page_.num_skipped(asked);
    viz::Shape& box = scene_.box(id, at, {});
    dress(box, fell ? State::kPreempted : in_group(group), asked.hue);
    if (found) box.edged(paint(Ink::kText), 2.5f);
    box.radius = std::min(4.0f, at.h / 4);
    box.lighting({viz::block_id(block)});
    box.tip(fmt::format("{}, {}: entry {} is block {}", asked.name, page_.group_name(group), index,
                        block));
    const Asked* const was = page_.before_.asked.find(asked.name);
    const bool fresh = was == nullptr || index >= std::ssize(was->tables.at(g));
    const Span when = found ? kFound : kTaken;
    if (fresh) box.comes_from(viz::block_id(block), when);
    const std::string digits = std::to_string(page_.settings_.num_blocks);  // no id has more digits
    const float size = std::min({14.0f, 0.62f * at.h, (at.w - 2) / viz::text_width(digits, 1)});
    if (size < viz::readable(scene_.room(), kLeastWord) || at.h < 10) return;
    Place place = group == 0 ? at : beside_the_frame(asked, index, at);
    if (viz::text_width(digits, viz::readable(scene_.room(), size)) > place.w) place = at;
    viz::Shape& text = number(id + "/id", place, std::to_string(block), size);
    if (fresh) text.comes_from(viz::block_id(block) + "/id", when);
  }

  /// Draws a null block: no later query reads these tokens' K and V in this group.
  void null_entry(const std::string& id, const Place& at) {
    viz::Shape& box = scene_.box(id, at, {});
    dress(box, State::kFree).during(kFalls).radius = std::min(4.0f, at.h / 4);
    box.tip("the null block: no query to come sees these tokens");
    const float size = viz::readable(scene_.room(), std::min(12.0f, 0.55f * at.h));
    const char* const word = viz::text_width("null", size) <= at.w - 4 ? "null" : "0";
    if (at.h < 10 || viz::text_width(word, viz::readable(scene_.room(), 7)) > at.w - 2) return;
    number(id + "/id", at, word, size, Ink::kDim).during(kFalls);
  }

  viz::Shape& number(const std::string& id, const Place& at, const std::string& text, float size,
                     Ink ink = Ink::kText) {
    return scene_.label(id, at, text,
                        {.size = std::min(14.0f, size), .paint = {ink}, .align = Align::kCentre},
                        kLeastWord);
  }

  /// The larger part of an entry that the edge of the frame cuts: a number can be read there.
  Place beside_the_frame(const Asked& asked, int index, const Place& at) const {
    const int end = asked.num_tokens() + 1, first = std::max(0, end - page_.settings_.window);
    const int begins = index * size_, ends = begins + size_;
    Place part = at;
    for (const int edge : {first, end}) {
      if (edge <= begins || edge >= ends) continue;
      const float left = unit_ * static_cast<float>(edge - begins);
      part = left > at.w - left ? Place{at.x, at.y, left - 3, at.h}
                                : Place{at.x + left, at.y, at.w - left, at.h};
    }
    return part;
  }

  /// Draws a frame around the tokens that the next token's query sees: the last ones, and its own.
  void window(const Asked& asked, float top, float h) {
    const int end = asked.num_tokens() + 1;
    const int first = std::max(0, end - page_.settings_.window);
    const float x = x_of(first) - 2, right = x_of(end) - 1;
    // Its edges would cut the numbers of narrow entries.
    if (unit_ * static_cast<float>(size_) < kNarrow) h = kTokens * row_;
    viz::Shape& frame =
        scene_.box(asked.name + "/window", {x, top - 2, right - x, h + 4}, {}, paint(Ink::kMark));
    frame.edged(paint(Ink::kMark), 2).dashed_edge().on_top().during(kSlides).radius = 5;
    frame.tip(
        fmt::format("the next token sees {} of {} tokens where there is a window, itself included",
                    end - first, end));
    const std::string words = fmt::format("seen next: {} tokens", end - first);
    if (named_) {
      const float wide = viz::text_width(words, kFrameName) + 2;
      scene_
          .label(asked.name + "/window/name",
                 {std::max(right - wide, at_.x), top + h + 4, wide, kFrameName + 3}, words,
                 {.size = kFrameName, .align = Align::kRight})
          .during(kSlides);
    }
    const Place next{x_of(end - 1), top, std::max(unit_ - 3, 1.0f), kTokens * row_};
    dress(scene_.box(asked.name + "/next", next, {}), State::kFree).during(kSlides).radius = 2;
  }

  const WindowsPage& page_;
  viz::Scene& scene_;
  const Place at_;
  const int num_groups_ = page_.manager().num_groups();
  const int size_ = page_.settings_.block_size;       // tokens of a block
  bool named_ = false;                                // the frame has its name below it
  float unit_ = 0;                                    // width of a token
  float pitch_ = 0, gap_ = 0, ribbon_ = 0, row_ = 0;  // heights
};

/// Two requests or more share the room that one would have.
float lanes_height(int num_groups, size_t num_requests) {
  const auto rows = static_cast<float>(num_groups);
  const auto count = static_cast<float>(std::max<size_t>(num_requests, 1));
  return count * (kMostRow * (rows + kTokens) + kMostRibbon + kLaneGap * (rows + 1) + kApart +
                  kFrameName + 2);
}

void draw_lanes(viz::Scene& scene, const WindowsPage& page, const Place& at) {
  Lanes(scene, page, at).draw();
}

}  // namespace lesson10
