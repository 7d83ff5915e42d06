#include "picture.h"

namespace lesson09 {
namespace {

constexpr float kRibbon = 22;

// Parts of a guess's motion: the last token takes its slot, the n-gram is seen, and its
// continuation travels.
constexpr Span kRuns{0, 0.25f}, kSeen{0.2f, 0.4f}, kTravels{0.42f, 1};
// Parts of a pass's motion: rows are checked, and tokens drawn.
constexpr Span kChecked{0.05f, 0.6f}, kStruck{0.4f, 0.72f};

}  // namespace

/// Rows of the blocks that a request holds or may hold in the end, so that the picture keeps its
/// size.
int Picture::rows_of(const Asked& asked, int columns) const {
  if (asked.ended) return 2;
  const int blocks = std::max(lesson03::blocks_for(asked.max_slots(), blocks_.block_size),
                              static_cast<int>(asked.ids.size()));
  return (blocks + columns - 1) / columns;
}

void Picture::fit_blocks() {
  blocks_.block_size = page_.settings_.block_size;
  blocks_ = viz::fit_words(areas_.lanes, blocks_.block_size,
                           static_cast<float>(now_.asked.size()) * (kRibbon + 6), [&](int columns) {
                             int rows = 0;
                             for (const Asked& asked : now_.asked) rows += rows_of(asked, columns);
                             return rows;
                           });
}

void Picture::draw_lanes() {
  fit_blocks();
  const Place& all = areas_.lanes;
  if (now_.asked.empty()) {
    viz::heading(scene_, "empty", {all.x, all.y, all.w, kHeading}, "no request yet");
  }
  const float wide = blocks_.block(blocks_.columns - 1, all).right() - all.x;
  float y = all.y;
  for (const Asked& asked : now_.asked) {
    name(asked, {all.x, y, std::max(wide, 0.7f * all.w), kRibbon});
    y += kRibbon + 4;
    if (asked.ended) {
      viz::words(
          scene_, asked.name + "/word", {all.x, y, all.w, 2 * blocks_.h}, asked.known(),
          [&](int32_t token) { return page_.word(token); }, asked.hue,
          std::clamp(blocks_.h / 1.8f, 7.0f, 12.0f));
    } else {
      blocks(asked, {all.x, y, 0, 0});
    }
    y += static_cast<float>(rows_of(asked, blocks_.columns)) * blocks_.pitch() + 2;
  }
}

/// Draws the request's name and state, and the token that has no slot yet.
void Picture::name(const Asked& asked, const Place& at) {
  const std::string known = kv::count_of(asked.num_known(), "token");
  viz::ribbon(scene_, asked, at, page_.selected() == asked.name,
              asked.ended   ? fmt::format("{} has ended: {}", asked.name, known)
              : asked.waits ? fmt::format("{} waits, {}", asked.name, known)
                            : fmt::format("{}: {} with K and V", asked.name,
                                          kv::count_of(asked.num_computed, "token")));
  if (asked.ended || asked.ids.empty() || asked.num_known() <= asked.num_slots) return;
  const std::string id = asked.name + "/next", next = page_.word(asked.known().back());
  const float right = std::max(viz::text_width(next, 12) + 12, 20.0f);
  const Place chip{at.right() - right - 4, at.y + 2, right, at.h - 4};
  const float w = viz::text_width("drawn", 12) + 6;
  scene_.label("request " + asked.name + "/drawn", {chip.x - w, at.y, w, at.h}, "drawn",
               {.size = 12});
  const bool moves = ran_ && part_of(asked) != nullptr;
  const std::string from = moves ? slot_id(asked, std::max(asked.num_computed - 1, 0)) : "";
  const Span comes{0.5f, 0.75f};
  scene_.box(id, chip, paint(Ink::kCell), full(asked.hue)).comes_from(from, comes).radius = 3;
  scene_.label(id + "/token", chip, next, {.size = 12, .align = viz::Align::kCentre})
      .comes_from(from, comes);
}

/// Draws a request's blocks with their slots, and what the last command did to them.
void Picture::blocks(const Asked& asked, const Place& corner) {
  for (int i = 0; i < std::ssize(asked.ids); ++i) {
    const int32_t number = asked.ids[static_cast<size_t>(i)];
    const bool can_be_found = page_.pool().block(number).is_cached;
    blocks_.draw(
        scene_, number, blocks_.block(i, corner), asked.hue,
        fmt::format("{}, table entry {}: block {}{}", asked.name, i, number,
                    can_be_found ? "\nfull of tokens that are known: it can be found" : ""),
        guessed_ ? kSeen : Span{});
    for (int t = i * blocks_.block_size; t < (i + 1) * blocks_.block_size; ++t) {
      slot(asked, t, blocks_.slot_of(t, corner));
    }
  }
  const Part* const part = part_of(asked);
  if (part == nullptr) return;
  if (now_.composed && part->length > 0 && part->proposed > 0) draw_ngrams(asked, *part);
  if (ran_) check_rows(asked, *part, corner);
}

std::string Picture::slot_id(const Asked& asked, int position) const {
  const auto index = static_cast<size_t>(position / blocks_.block_size);
  if (index >= asked.ids.size()) return {};
  return fmt::format("slot {}/{}", asked.ids[index], position % blocks_.block_size);
}

/// The state of the token in a slot: kFree for a guess, kReserved if it runs in this pass. Empty if
/// there is no token.
std::optional<State> Picture::state_of(const Asked& asked, int position) const {
  const Part* part = part_of(asked);
  const int guess = part == nullptr ? -1 : position - part->first_guess();
  const bool judged = guess >= 0 && !now_.composed;
  if (position >= asked.num_slots) {
    return judged && guess < part->num_guesses() ? std::optional(State::kEvicted) : std::nullopt;
  }
  if (guess >= 0 && now_.composed) return State::kFree;
  if (position >= asked.num_computed) return State::kReserved;
  return judged && guess < part->accepted ? State::kFound : State::kInUse;
}

std::string Picture::word_at(const Asked& asked, int position) const {
  const auto state = state_of(asked, position);
  if (!state) return {};
  if (state == State::kFree || state == State::kEvicted) {
    const Part& part = *part_of(asked);
    return page_.word(part.guesses[static_cast<size_t>(position - part.first_guess())]);
  }
  return page_.word(asked.known()[static_cast<size_t>(position)]);
}

/// The part of the motion in which a slot changes.
Span Picture::when(const Asked& asked, int position) const {
  const Part* part = part_of(asked);
  if (part == nullptr || !(guessed_ || ran_)) return {};
  const int i = position - part->first_guess(), count = part->num_guesses();
  if (ran_ && !guessed_) {
    return viz::in_turn(kChecked, std::clamp(i + 1, 0, count), count + 1);
  }
  return i >= 0 && i < count ? viz::in_turn(kTravels, i, count) : kRuns;
}

void Picture::slot(const Asked& asked, int position, const Place& at) {
  const std::string id = slot_id(asked, position);
  const auto state = state_of(asked, position);
  viz::Shape* const word = blocks_.draw_slot(scene_, id, at, state, asked.hue,
                                             word_at(asked, position), when(asked, position));
  if (word == nullptr || !guessed_) return;
  if (state == State::kFree) {
    const Part& part = *part_of(asked);
    word->from = slot_id(asked, part.found + position - part.first_guess());
  } else if (state == State::kReserved && asked.num_computed > 0) {
    word->from = asked.name + "/next";
  } else {
    return;
  }
  scene_.ends(id + "/token", {0, 0.05f});  // what was struck out is written over
}

/// Marks the n-gram at the end and at its earlier place, and points from there to the guesses.
void Picture::draw_ngrams(const Asked& asked, const Part& part) {
  const int known = part.first_guess();
  for (int i = 0; i < part.length; ++i) {
    for (const int position : {part.found - 1 - i, known - 1 - i}) {
      viz::Shape* const box = scene_.find(slot_id(asked, position));
      if (box != nullptr) box->edged(paint(Ink::kText), 2.5f).during(kSeen);
    }
  }
  const viz::Shape* const from = scene_.find(slot_id(asked, part.found));
  const viz::Shape* const to = scene_.find(slot_id(asked, known));
  if (part.guesses.empty() || from == nullptr || to == nullptr) return;
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

/// Draws the check of the rows, one after the other. Guesses in blocks that have gone back are
/// struck out where they were.
void Picture::check_rows(const Asked& asked, const Part& part, const Place& corner) {
  const int first = part.first_guess(), count = part.num_guesses();
  for (int i = -1; i < count; ++i) {
    const Place at = blocks_.slot_of(first + i, corner);
    viz::Shape ring{.id = fmt::format("{}/row {}", asked.name, i), .at = at.inset(-2)};
    ring.edged(paint(Ink::kMark), 3);
    scene_.ghost(ring, ring.at, viz::in_turn(Span{0, 0.6f}, i + 1, count + 1));
    if (i < 0 || (first + i) / blocks_.block_size < std::ssize(asked.ids)) continue;
    viz::Scene gone(scene_.room());
    const std::string id = ring.id + "/gone";
    const viz::Shape* const word = blocks_.draw_slot(
        gone, id, at, State::kEvicted, asked.hue, page_.word(part.guesses[static_cast<size_t>(i)]));
    scene_.ghost(*gone.find(id), at, kStruck);
    if (word != nullptr) scene_.ghost(*word, word->at, kStruck);
  }
}

}  // namespace lesson09
