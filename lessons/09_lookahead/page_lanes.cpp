#include "page_picture.h"

namespace lesson09 {
namespace {

constexpr float kLeastWord = 7;  // points; smaller words are not drawn

// Of the motion of a guess: the last token takes its slot, the n-gram is seen, and its
// continuation travels.
constexpr Span kRuns{0, 0.25f}, kSeen{0.2f, 0.4f}, kTravels{0.42f, 1};
// Of the motion of a pass: rows are checked, and tokens drawn.
constexpr Span kChecked{0.05f, 0.6f}, kStruck{0.4f, 0.72f};

Span nth(const Span& all, int i, int count) {
  const float each = (all.end - all.begin) / static_cast<float>(count + 1);
  const float begin = all.begin + each * static_cast<float>(i);
  return {begin, begin + 2 * each};
}

}  // namespace

/// Blocks that it holds, or may hold in the end, so that the picture keeps its size.
int Picture::rows_of(const Asked& asked, int columns) const {
  if (asked.ended) return 2;
  const int most = static_cast<int>(asked.prompt.size()) + asked.most_answer - 1;
  const int blocks = std::max(lesson03::blocks_for(most, page_.settings_.block_size),
                              static_cast<int>(asked.ids.size()));
  return (blocks + columns - 1) / columns;
}

/// As large as the room allows; a word wants more width than height.
void Picture::fit_tiles() {
  const Place& at = areas_.lanes;
  const auto size = static_cast<float>(page_.settings_.block_size);
  const auto count = static_cast<float>(now_.asked.size());
  float best = -1;
  for (int columns = 1; columns <= 8; ++columns) {
    int rows = 0;
    for (const Asked& asked : now_.asked) rows += rows_of(asked, columns);
    const auto c = static_cast<float>(columns);
    Tiles tiles{.columns = columns};
    tiles.h = (at.h - count * (kRibbon + 6)) / static_cast<float>(std::max(rows, 2)) - Tiles::kGap;
    tiles.h = std::min(tiles.h, 64.0f);
    if (tiles.h < 2 * Tiles::kPad + 1) continue;
    tiles.w = (at.w - Tiles::kGap * (c - 1)) / c;
    tiles.slot = std::min((tiles.w - tiles.number() - Tiles::kPad) / size, 3 * tiles.h);
    if (tiles.slot < 3) continue;
    tiles.w = tiles.number() + size * tiles.slot + Tiles::kPad;
    const float good = std::min(tiles.slot / 58, tiles.h / 28);
    if (good <= best) continue;
    best = good;
    tiles_ = tiles;
  }
}

void Picture::draw_lanes() {
  fit_tiles();
  if (now_.asked.empty()) {
    viz::heading(scene_, "empty", {areas_.lanes.x, areas_.lanes.y, areas_.lanes.w, kHeading},
                 "no request yet");
  }
  float y = areas_.lanes.y;
  for (const Asked& asked : now_.asked) {
    const float wide = static_cast<float>(tiles_.columns) * (tiles_.w + Tiles::kGap) - Tiles::kGap;
    y += ribbon(asked, {areas_.lanes.x, y, std::max(wide, 0.7f * areas_.lanes.w), kRibbon}) + 4;
    const float pitch = tiles_.h + Tiles::kGap;
    if (asked.ended) {
      std::vector<viz::Chip> words;
      for (const int32_t token : asked.known()) {
        words.push_back({.text = page_.word(token), .hue = asked.hue});
      }
      viz::chips(scene_, asked.name + "/word", {areas_.lanes.x, y, areas_.lanes.w, 2 * tiles_.h},
                 words, std::clamp(tiles_.h / 1.8f, 7.0f, 12.0f));
    }
    const Place corner{areas_.lanes.x, y, tiles_.w, tiles_.h};
    for (int i = 0; i < std::ssize(asked.ids); ++i) tile(asked, i, tiles_.tile(i, corner));
    if (const Part* part = part_of(asked); part != nullptr && !asked.ended) {
      if (now_.composed && part->length > 0 && part->proposed > 0) draw_ngrams(asked, *part);
      if (ran_) check_rows(asked, *part, corner);
    }
    y += static_cast<float>(rows_of(asked, tiles_.columns)) * pitch + 2;
  }
}

/// The name, what the request is about, and the token that has no slot yet.
float Picture::ribbon(const Asked& asked, const Place& at) {
  const std::string id = "request " + asked.name;
  viz::Shape& box = scene_.box(id, at, soft(asked.hue), full(asked.hue));
  box.selecting(asked.name).tip("request " + asked.name + ": a click selects it").radius = 4;
  if (page_.selected() == asked.name) box.edged(paint(Ink::kText), 2.5f);
  const int known = asked.num_known();
  const bool has_next = !asked.ended && !asked.ids.empty() && known > asked.num_slots;
  const std::string next = has_next ? page_.word(asked.known().back()) : "";
  const float right = has_next ? std::max(viz::text_width(next, 12) + 12, 20.0f) : 0;
  std::string words =
      fmt::format("{}: {} with K and V", asked.name, kv::count_of(asked.num_computed, "token"));
  if (asked.waits) words = fmt::format("{} waits, {}", asked.name, kv::count_of(known, "token"));
  if (asked.ended)
    words = fmt::format("{} has ended: {}", asked.name, kv::count_of(known, "token"));
  scene_.label(id + "/name", {at.x + 6, at.y, 0.6f * at.w, at.h}, words, {.size = 13});
  if (!has_next) return at.h;
  const Place chip{at.right() - right - 4, at.y + 2, right, at.h - 4};
  const std::string drawn = "drawn";
  const float w = viz::text_width(drawn, 12) + 6;
  scene_.label(id + "/drawn", {chip.x - w, at.y, w, at.h}, drawn, {.size = 12});
  const Part* part = part_of(asked);
  const std::string from = part == nullptr ? ""
                                           : slot_id(asked, std::max(asked.num_computed - 1, 0),
                                                     page_.settings_.block_size);
  scene_.box(asked.name + "/next", chip, paint(Ink::kCell), full(asked.hue))
      .comes_from(ran_ ? from : "", {0.5f, 0.75f})
      .radius = 3;
  scene_.label(asked.name + "/next/token", chip, next, {.size = 12, .align = Align::kCentre})
      .comes_from(ran_ ? from : "", {0.5f, 0.75f});
  return at.h;
}

std::string Picture::slot_id(const Asked& asked, int position, int block_size) {
  const auto index = static_cast<size_t>(position / block_size);
  if (index >= asked.ids.size()) return {};
  return fmt::format("slot {}/{}", asked.ids[index], position % block_size);
}

Look Picture::look_of(const Asked& asked, int position) const {
  const Part* part = part_of(asked);
  const int first_guess = part == nullptr ? 0 : part->first + part->num_rows;
  if (position >= asked.num_slots) {
    const bool was_guess = part != nullptr && !now_.composed && position >= first_guess &&
                           position - first_guess < std::ssize(part->guesses);
    return was_guess ? Look::kStruck : Look::kNone;
  }
  if (part != nullptr && now_.composed && position >= first_guess) return Look::kGuess;
  if (position >= asked.num_computed) return Look::kRuns;
  const bool right = part != nullptr && !now_.composed && position >= first_guess &&
                     position - first_guess < part->accepted;
  return right ? Look::kRight : Look::kRan;
}

std::string Picture::word_at(const Asked& asked, int position) const {
  const Look look = look_of(asked, position);
  if (look == Look::kNone) return {};
  if (look == Look::kGuess || look == Look::kStruck) {
    const Part& part = *part_of(asked);
    return page_.word(part.guesses[static_cast<size_t>(position - part.first - part.num_rows)]);
  }
  const auto t = static_cast<size_t>(position);
  const size_t prompt = asked.prompt.size();
  return page_.word(t < prompt ? asked.prompt[t] : asked.answer[t - prompt]);
}

/// When a slot changes.
Span Picture::when(const Asked& asked, int position) const {
  const Part* part = part_of(asked);
  if (part == nullptr || !(guessed_ || ran_)) return {};
  const auto count = static_cast<int>(part->guesses.size());
  const int i = position - part->first - part->num_rows;
  if (guessed_) return i >= 0 && i < count ? nth(kTravels, i, count) : kRuns;
  return nth(kChecked, std::clamp(i + 1, 0, count), count + 1);
}

/// A block with its slots.
void Picture::tile(const Asked& asked, int index, const Place& at) {
  const int size = page_.settings_.block_size;
  const int32_t number = asked.ids[static_cast<size_t>(index)];
  const std::string id = fmt::format("block {}", number);
  const bool can_be_found = page_.pool().block(number).is_cached;
  scene_.box(id, at, paint(Ink::kPanel), full(asked.hue))
      .tip(fmt::format("{}, table entry {}: block {}{}", asked.name, index, number,
                       can_be_found ? "\nfull of tokens that are known: it can be found" : ""))
      .during(guessed_ ? kSeen : Span{})
      .radius = 4;
  if (tiles_.h >= 14) {
    scene_
        .label(id + "/id", {at.x, at.y, tiles_.number(), at.h}, std::to_string(number),
               {.size = std::clamp(0.4f * tiles_.h, 8.0f, 13.0f), .align = Align::kCentre}, 6)
        .during(guessed_ ? kSeen : Span{});
  }
  for (int offset = 0; offset < size; ++offset) {
    slot(asked, index * size + offset, tiles_.slot_in(at, offset));
  }
}

void Picture::slot(const Asked& asked, int position, const Place& at) {
  const std::string id = slot_id(asked, position, page_.settings_.block_size);
  const Look look = look_of(asked, position);
  viz::Shape& box = scene_.box(id, at, paint(Ink::kCell), paint(Ink::kLine, 0.6f));
  box.radius = 2;
  box.thickness = 1;
  const std::string word = word_at(asked, position);
  switch (look) {
    case Look::kNone:
      break;
    case Look::kRan:
      box.fill = soft(asked.hue);
      break;
    case Look::kRuns:
      dress(box, State::kReserved, asked.hue);
      break;
    case Look::kRight:
      dress(box, State::kFound, asked.hue);
      break;
    case Look::kGuess:
      box.fill = paint(Ink::kNone);
      box.edged(full(asked.hue), 1.8f).dashed_edge();
      break;
    case Look::kStruck:
      dress(box, State::kEvicted);
      break;
  }
  const Span span = when(asked, position);
  box.during(span).tip(word);
  if (word.empty() || at.h < 9 || viz::text_width(word, kLeastWord) > at.w - 3) return;
  const bool known = look != Look::kGuess && look != Look::kStruck;
  viz::Shape& text = scene_.label(id + "/token", at.inset(1), word,
                                  {.size = std::min(14.0f, 0.62f * at.h),
                                   .paint = paint(known ? Ink::kText : Ink::kDim),
                                   .align = Align::kCentre},
                                  kLeastWord);
  text.during(span).struck = look == Look::kStruck;
  const bool fresh = guessed_ && (look == Look::kGuess || look == Look::kRuns);
  if (!fresh) return;
  if (look == Look::kRuns) {
    if (asked.num_computed > 0) text.from = asked.name + "/next";
  } else {
    const Part& part = *part_of(asked);
    const int i = position - part.first - part.num_rows;
    text.from = slot_id(asked, part.found + i, page_.settings_.block_size);
  }
  scene_.ends(id + "/token", {0, 0.05f});  // what was struck out is written over
}

/// The n-gram at the end, the same where it came before, and where the guesses are from.
void Picture::draw_ngrams(const Asked& asked, const Part& part) {
  const int size = page_.settings_.block_size;
  const int known = part.first + part.num_rows;
  for (int i = 0; i < part.length; ++i) {
    for (const int position : {part.found - 1 - i, known - 1 - i}) {
      viz::Shape* const box = scene_.find(slot_id(asked, position, size));
      if (box != nullptr) box->edged(paint(Ink::kText), 2.5f).during(kSeen);
    }
  }
  if (part.guesses.empty()) return;
  const viz::Shape* const from = scene_.find(slot_id(asked, part.found, size));
  const viz::Shape* const to = scene_.find(slot_id(asked, known, size));
  if (from == nullptr || to == nullptr) return;
  // At the left edge of the slots between, where no word is.
  const Place a = from->at, b = to->at;
  const float x = 0.08f;
  scene_
      .line(asked.name + "/arrow", a.x + x * a.w, a.bottom() - 3, b.x + x * b.w, b.y + 3,
            paint(Ink::kText), 2)
      .pointing()
      .on_top()
      .during(kTravels);
}

/// Rows are checked one after the other. Guesses in blocks that have gone back are struck out where
/// they were.
void Picture::check_rows(const Asked& asked, const Part& part, const Place& corner) {
  const int size = page_.settings_.block_size, first = part.first + part.num_rows;
  const auto count = static_cast<int>(part.guesses.size());
  for (int i = -1; i < count; ++i) {
    const Place at = tiles_.slot_in(tiles_.tile((first + i) / size, corner), (first + i) % size);
    viz::Shape ring{.id = fmt::format("{}/row {}", asked.name, i), .at = at.inset(-2)};
    ring.edged(paint(Ink::kMark), 3);
    scene_.ghost(ring, ring.at, nth({0, 0.6f}, i + 1, count + 1));
    if (i < 0 || (first + i) / size < std::ssize(asked.ids)) continue;
    viz::Scene slots(scene_.room());
    viz::Shape box = slots.box(ring.id + "/gone", at, paint(Ink::kNone));
    viz::Shape word = slots.label(
        ring.id + "/word", at.inset(1), page_.word(part.guesses[static_cast<size_t>(i)]),
        {.size = std::min(14.0f, 0.62f * at.h), .paint = paint(Ink::kDim), .align = Align::kCentre},
        kLeastWord);
    scene_.ghost(word, at.inset(1), {0, kStruck.begin});
    scene_.ghost(dress(box, State::kEvicted), at, kStruck);
    scene_.ghost(word.strike(), at.inset(1), kStruck);
  }
}

}  // namespace lesson09
