#include "picture.h"

namespace lesson10 {
namespace {

constexpr float kLeastWord = 7;   // points; smaller words are not drawn
constexpr int kLeastTokens = 32;  // that a lane has room for
// Largest sizes in a lane: heights of a table and of the name, and the gaps between.
constexpr float kMostRow = 56, kMostRibbon = 20, kLaneGap = 4, kApart = 10;
constexpr float kTokens = 0.6f;  // height of the tokens, of that of a table

}  // namespace

/// Two requests or more share the room that one would have.
float Picture::wanted(const WindowsPage& page) {
  const auto rows = static_cast<float>(page.manager().num_groups());
  const auto count = static_cast<float>(std::max<size_t>(page.now_.asked.size(), 1));
  return count * (kMostRow * (rows + kTokens) + kMostRibbon + kLaneGap * (rows + 1) + kApart);
}

/// Makes lanes as large as the room allows. All lanes have one scale, so that they can be compared.
void Picture::fit_lanes() {
  const Place& at = areas_.lanes;
  const int size = block_size();
  lane_.entries = lesson03::blocks_for(kLeastTokens, size);
  for (const Asked& asked : now_.asked) {
    lane_.entries = std::max(lane_.entries, lesson03::blocks_for(asked.num_tokens() + 1, size));
  }
  lane_.entries = (lane_.entries + 3) / 4 * 4;
  lane_.size = size;
  lane_.unit = (at.w - kGroupName) / static_cast<float>(lane_.entries * size);
  const auto rows = static_cast<float>(num_groups());
  lane_.pitch = at.h / static_cast<float>(std::max<size_t>(now_.asked.size(), 1));
  lane_.gap = lane_.pitch > 30 + 16 * rows ? kLaneGap : 2.0f;
  const float tall = lane_.pitch - kApart - lane_.gap * (rows + 1);
  lane_.ribbon = std::clamp(0.2f * tall, 10.0f, kMostRibbon);
  lane_.row = std::clamp((tall - lane_.ribbon) / (rows + kTokens), 3.0f, kMostRow);
  lane_.tokens = kTokens * lane_.row;
}

void Picture::draw_lanes() {
  fit_lanes();
  const Place& area = areas_.lanes;
  if (now_.asked.empty()) {
    viz::heading(scene_, "empty", {area.x, area.y, area.w, kHeading}, "no request yet");
  }
  float y = area.y;
  for (const Asked& asked : now_.asked) {
    lane(asked, {area.x, y, area.w, lane_.pitch});
    y += lane_.pitch;
  }
}

/// Draws a request: its name, full attention's table, its tokens, the tables of the sliding groups,
/// and the window over both.
float Picture::lane(const Asked& asked, const Place& at) {
  float y = at.y;
  ribbon(asked, {at.x, y, at.w, lane_.ribbon});
  y += lane_.ribbon + lane_.gap;
  table(asked, 0, {at.x, y, at.w, lane_.row});
  y += lane_.row + lane_.gap;
  const float top = y;
  tokens(asked, {at.x, y, at.w, lane_.tokens});
  y += lane_.tokens + lane_.gap;
  for (int group = 1; group < num_groups(); ++group) {
    table(asked, group, {at.x, y, at.w, lane_.row});
    y += lane_.row + lane_.gap;
  }
  if (num_groups() > 1) window(asked, {at.x, top, at.w, y - lane_.gap - top});
  return y - at.y;
}

void Picture::ribbon(const Asked& asked, const Place& at) {
  const auto entries = static_cast<float>(asked.tables[0].size() * static_cast<size_t>(lane_.size));
  const float wide = std::clamp(kGroupName + entries * lane_.unit - 3, 200.0f, at.w);
  std::string words = fmt::format("{}: {}", asked.name, kv::count_of(asked.num_tokens(), "token"));
  if (asked.num_found > 0) words += fmt::format(", {} of them found", asked.num_found);
  viz::ribbon(scene_, asked, {at.x, at.y, wide, at.h}, page_.selected() == asked.name, words);
}

/// Draws a cell for each token. Words are drawn if there is room for all of them.
void Picture::tokens(const Asked& asked, const Place& at) {
  const float w = lane_.unit;
  float widest = 0;
  for (const int32_t token : asked.tokens) {
    widest = std::max(widest, viz::text_width(page_.word(token), kLeastWord));
  }
  const bool readable = widest <= w - 3 && at.h >= 10;
  const Asked* const was = before_.asked.find(asked.name);
  const int known = was == nullptr ? 0 : was->num_tokens();
  if (at.h >= 9) {
    scene_.label(asked.name + "/tokens", {at.x, at.y, kGroupName - 6, at.h}, "tokens",
                 {.size = std::min(12.0f, at.h), .paint = {Ink::kDim}}, 7);
  }
  for (int t = 0; t < asked.num_tokens(); ++t) {
    const std::string id = fmt::format("{}/token {}", asked.name, t);
    const std::string word = page_.word(asked.tokens[static_cast<size_t>(t)]);
    const Place cell{lane_.x_of(at, t), at.y, std::max(w - (w > 6 ? 2.0f : 0.5f), 0.5f), at.h};
    const Span when = t < known ? Span{} : Span{0.7f, 1};
    viz::Shape& box = scene_.box(id, cell, soft(asked.hue));
    box.tip(fmt::format("token {}: {}", t, word)).during(when).radius = 2;
    if (!readable) continue;
    scene_
        .label(id + "/word", cell, word,
               {.size = std::min(13.0f, 0.62f * at.h), .align = Align::kCentre}, kLeastWord)
        .during(when);
  }
}

/// Draws a row: the group's name, and an entry for each block of tokens.
void Picture::table(const Asked& asked, int group, const Place& at) {
  const std::vector<int32_t>& ids = asked.tables[static_cast<size_t>(group)];
  if (at.h >= 9) {
    scene_.label(fmt::format("{}/{}/name", asked.name, group), {at.x, at.y, kGroupName - 6, at.h},
                 page_.group_name(group), {.size = std::min(13.0f, at.h)}, 7);
  }
  for (int i = 0; i < std::ssize(ids); ++i) {
    const Place place = lane_.blocks(at, i, at.y, at.h);
    if (ids[static_cast<size_t>(i)] == BlockPool::kNullBlock) {
      null_entry(asked, group, i, place);
    } else {
      entry(asked, group, i, place);
    }
  }
}

void Picture::entry(const Asked& asked, int group, int index, const Place& at) {
  const int32_t number = asked.tables[static_cast<size_t>(group)][static_cast<size_t>(index)];
  const std::string id = fmt::format("{}/{}/entry {}", asked.name, group, index);
  const int end = (index + 1) * block_size();
  const bool found = end <= asked.num_found;
  const bool fell = group > 0 && end <= page_.num_skipped(asked);
  viz::Shape& box = scene_.box(id, at, {});
  dress(box, fell ? State::kPreempted : in_group(group), asked.hue);
  if (found) box.edged(paint(Ink::kText), 2.5f);
  box.radius = std::min(4.0f, at.h / 4);
  box.lighting({fmt::format("block {}", number)});
  box.tip(fmt::format("{}, {}: entry {} is block {}{}{}", asked.name, page_.group_name(group),
                      index, number, found ? ", found" : "",
                      fell ? "\nno query to come sees it: it goes back with the next token" : ""));
  const Asked* const was = before_.asked.find(asked.name);
  const bool fresh =
      was == nullptr || index >= std::ssize(was->tables.at(static_cast<size_t>(group)));
  const Span when = found ? kFound : kTaken;
  if (fresh) box.comes_from(fmt::format("block {}", number), when);
  const std::string digits = std::to_string(page_.settings_.num_blocks);  // no id has more digits
  const float size = std::min({14.0f, 0.62f * at.h, (at.w - 2) / viz::text_width(digits, 1)});
  if (size < kLeastWord || at.h < 10) return;
  Place place = group == 0 ? at : beside_the_frame(asked, index, at);
  if (viz::text_width(digits, size) > place.w) place = at;
  viz::Shape& text = scene_.label(id + "/id", place, std::to_string(number),
                                  {.size = size, .align = Align::kCentre}, kLeastWord);
  if (fresh) text.comes_from(fmt::format("block {}/id", number), when);
}

/// Draws a null block: no later query reads these tokens' K and V in this group.
void Picture::null_entry(const Asked& asked, int group, int index, const Place& at) {
  const std::string id = fmt::format("{}/{}/null {}", asked.name, group, index);
  viz::Shape& box = scene_.box(id, at, {});
  dress(box, State::kFree).during(kFalls).radius = std::min(4.0f, at.h / 4);
  box.tip(fmt::format("{}, {}: entry {} is the null block\nno query to come sees these tokens",
                      asked.name, page_.group_name(group), index));
  if (at.h < 10 || viz::text_width("0", 7) > at.w - 2) return;
  scene_
      .label(id + "/id", at, "0",
             {.size = std::min(12.0f, 0.55f * at.h), .paint = {Ink::kDim}, .align = Align::kCentre},
             kLeastWord)
      .during(kFalls);
}

/// The larger part of an entry that the edge of the frame cuts: a number can be read there.
Place Picture::beside_the_frame(const Asked& asked, int index, const Place& at) const {
  const int end = asked.num_tokens() + 1, first = std::max(0, end - page_.settings_.window);
  const int begins = index * block_size(), ends = begins + block_size();
  Place part = at;
  for (const int edge : {first, end}) {
    if (edge <= begins || edge >= ends) continue;
    const float left = lane_.unit * static_cast<float>(edge - begins);
    part = left > at.w - left ? Place{at.x, at.y, left - 3, at.h}
                              : Place{at.x + left, at.y, at.w - left, at.h};
  }
  return part;
}

/// Draws a frame around the tokens that the next token's query sees: the last ones, and its own.
void Picture::window(const Asked& asked, const Place& at) {
  const int end = asked.num_tokens() + 1;
  const int first = std::max(0, end - page_.settings_.window);
  const float x = lane_.x_of(at, first) - 2, right = lane_.x_of(at, end) - 1;
  viz::Shape& frame =
      scene_.box(asked.name + "/window", {x, at.y - 2, right - x, at.h + 4}, {}, paint(Ink::kMark));
  frame.edged(paint(Ink::kMark), 2).on_top().during(kSlides).radius = 5;
  frame.tip(
      fmt::format("the next token sees {} of {} tokens where there is a window, itself included",
                  end - first, end));
  const Place next{lane_.x_of(at, end - 1), at.y, std::max(lane_.unit - 3, 1.0f), lane_.tokens};
  dress(scene_.box(asked.name + "/next", next, {}), State::kFree).during(kSlides).radius = 2;
}

/// Blocks that left a table travel to where they are in the pool.
void Picture::let_fall() {
  for (const Asked& was : before_.asked) {
    const Asked* const now = now_.asked.find(was.name);
    for (size_t group = 0; group < was.tables.size(); ++group) {
      for (size_t i = 0; i < was.tables[group].size(); ++i) {
        const int32_t id = was.tables[group][i];
        if (id == BlockPool::kNullBlock) continue;
        const bool stays = now != nullptr && group < now->tables.size() &&
                           i < now->tables[group].size() && now->tables[group][i] == id;
        const viz::Shape* const home = scene_.find(fmt::format("block {}", id));
        if (stays || home == nullptr) continue;
        const std::string name = fmt::format("{}/{}/entry {}", was.name, group, i);
        scene_.leaves(name, home->at, kFalls);
        scene_.leaves(name + "/id", home->at, kFalls);
      }
    }
  }
}

}  // namespace lesson10
