#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lookahead.h"
#include "viz/drawing/lanes.h"
#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"

namespace lesson09 {
namespace {

using viz::Ink;
using viz::kHeading;
using viz::paint;
using viz::Place;
using viz::Span;
using viz::State;

constexpr float kRibbon = 22;

// Parts of a guess's motion: the last token takes its slot, the n-gram is seen, and its
// continuation travels.
constexpr Span kRuns{0, 0.25f}, kSeen{0.2f, 0.4f}, kTravels{0.42f, 1};
// Parts of a pass's motion: rows are checked, guesses struck out, tokens drawn and counted.
constexpr Span kChecked{0.05f, 0.6f}, kStruck{0.4f, 0.72f}, kDrawn{0.5f, 0.75f};
constexpr Span kCounted{0.65f, 0.95f};

struct Areas {
  explicit Areas(const viz::Room& room) {
    const bool narrow = viz::is_narrow(room);
    const float left = (viz::is_in_text(room) ? 0.67f : 0.7f) * room.w, x = left + 20;
    const float foot = narrow ? 44 : 18, free = narrow ? 48 : 28, told = narrow ? 70 : 36;
    legend = {0, room.h - foot, room.w, foot};
    pool = {0, legend.y - 8 - free, room.w, free};
    reason = {0, pool.y - 8 - told, room.w, told};
    passes = {x, 0, room.w - x, reason.y - 6};
    lanes = {0, 0, left, passes.h};
    if (!narrow) return;
    lanes = {0, 0, room.w, 0.54f * pool.y};
    reason.y = lanes.bottom() + 4;
    passes = {0, reason.bottom(), room.w, pool.y - 8 - reason.bottom()};
  }
  Place lanes, passes, reason, pool, legend;
};

}  // namespace

/// One scene: requests with their blocks, the passes beside them, and below the free blocks.
class Picture {
 public:
  Picture(const LookaheadPage& page, const viz::Room& room)
      : page_(page), now_(page.now_), scene_(room), areas_(room) {
    const bool has_run = now_.num_run() > page.before_.num_run();
    guessed_ = now_.composed && (has_run || !page.before_.composed);
    ran_ = has_run && !now_.composed;
  }

  viz::Scene drawn() {
    draw_lanes();
    draw_passes();
    draw_pool();
    viz::reason(scene_, areas_.reason, now_.reason, now_.points_at,
                ran_ ? Span{0.6f, 0.7f} : Span{0.2f, 0.4f});
    viz::legend(scene_, areas_.legend,
                {{State::kInUse, "has K and V"},
                 {State::kReserved, "in this pass", 0},
                 {State::kFree, "guess", 0},
                 {.state = State::kInUse, .name = "came before", .has_twin = true},
                 {State::kFound, "right"},
                 {State::kEvicted, "struck out"},
                 {State::kCached, "can be found", viz::kNoHue},
                 {State::kFree, "free"}});
    const bool travels = guessed_ && now_.passes.back().front().proposed > 0;
    scene_.lasts(travels ? 2.2f : ran_ ? 1.8f : 0.45f);
    return std::move(scene_);
  }

 private:
  /// Draws the free blocks, the next one first.
  void draw_pool() {
    const Place& at = areas_.pool;
    constexpr float kName = 180;
    const int count = page_.settings_.num_blocks;
    viz::heading(scene_, "pool", {at.x, at.y, kName, at.h},
                 fmt::format("the pool: {} of {} free", now_.free.size(), count));
    const viz::Grid grid = viz::fit(std::max(count, 12), {at.x + kName, at.y, at.w - kName, at.h},
                                    {.gap = 4, .flattest = 1, .widest = 2.4f});
    const Span when = ran_ ? Span{0.7f, 1} : guessed_ ? kSeen : Span{};
    for (size_t i = 0; i < now_.free.size(); ++i) {
      const bool cached = page_.pool().block(now_.free[i]).is_cached;
      viz::numbered_block(scene_,
                          {.id = now_.free[i],
                           .state = cached ? State::kCached : State::kFree,
                           .tooltip = cached ? ": free, and what it holds can be found" : ": free"},
                          grid.cell(static_cast<int>(i)), when);
    }
  }

  /// Draws a line for each of the last passes, and for the one that is composed.
  void draw_passes() {
    const Place& at = areas_.passes;
    viz::heading(scene_, "passes", {at.x, at.y, at.w, kHeading},
                 fmt::format("{}; {} without guesses", kv::count_of(now_.num_run(), "pass"),
                             now_.num_without));
    const float pitch = std::clamp(0.085f * at.h, 19.0f, std::max(30.0f, 0.06f * at.h));
    const auto fit = static_cast<int64_t>((at.h - kHeading - 4) / pitch);
    const int64_t total = std::ssize(now_.passes);
    float y = at.y + kHeading + 4;
    for (int64_t i = std::max<int64_t>(total - fit, 0); i < total; ++i) {
      draw_pass(i, {at.x, y, at.w, pitch - 4});
      y += pitch;
    }
  }

  /// Draws the rows of a pass; a guess is dashed until it is judged.
  void draw_pass(int64_t number, const Place& at) {
    const bool has_run = number < now_.num_run();
    viz::Bar bar{.id = fmt::format("pass {}", number + 1),
                 .name = std::to_string(number + 1),
                 .name_width = 24,
                 .total_width = 30};
    int units = 0, drawn = 0;
    for (const Part& part : now_.passes[number]) {
      const std::string id = bar.id + "/" + part.name, rows = std::to_string(part.num_rows);
      const int width = std::min(part.num_rows, 2);
      bar.parts.push_back({.id = id,
                           .size = width,
                           .state = has_run ? State::kInUse : State::kReserved,
                           .hue = part.hue,
                           .text = part.num_rows > 1 ? rows : ""});
      for (int i = 0; i < part.num_guesses(); ++i) {
        const State judged = i < part.accepted ? State::kFound : State::kEvicted;
        bar.parts.push_back({.id = fmt::format("{}/guess {}", id, i),
                             .size = 1,
                             .state = has_run ? judged : State::kFree,
                             .hue = part.hue});
      }
      units += width + part.num_guesses();
      drawn += part.drawn;
    }
    if (has_run) bar.total = fmt::format("+{}", drawn);
    const auto fit = static_cast<int>((at.w - bar.name_width - bar.total_width) / at.h);
    viz::bar(scene_, bar, at, std::max(units, fit), ran_ || guessed_ ? kCounted : Span{});
  }

  /// Rows of the blocks that a request holds or may hold in the end, so that the picture keeps its
  /// size.
  int rows_of(const Asked& asked, int columns) const {
    if (asked.ended) return 2;
    const int blocks = lesson03::blocks_for(asked.max_slots(), blocks_.block_size);
    return (blocks + columns - 1) / columns;
  }

  void draw_lanes() {
    const Place& all = areas_.lanes;
    blocks_.block_size = page_.settings_.block_size;
    const float heads = static_cast<float>(now_.asked.size()) * (kRibbon + 6);
    blocks_ = viz::fit_words(all, blocks_.block_size, heads, [&](int columns) {
      int rows = 0;
      for (const Asked& asked : now_.asked) rows += rows_of(asked, columns);
      return rows;
    });
    if (now_.asked.empty()) {
      viz::heading(scene_, "empty", {all.x, all.y, all.w, kHeading}, "no request yet");
    }
    const float wide = blocks_.block(blocks_.columns - 1, all).right() - all.x;
    const float least = (viz::is_narrow(scene_.room()) ? 1 : 0.7f) * all.w;
    float y = all.y;
    for (const Asked& asked : now_.asked) {
      name(asked, {all.x, y, std::max(wide, least), kRibbon});
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
  void name(const Asked& asked, const Place& at) {
    const char* const doing = asked.ended ? "has ended" : asked.waits() ? "waits" : "runs";
    viz::ribbon(scene_, asked, at, page_.selected() == asked.name,
                fmt::format("{} {}: {}, {} with K and V", asked.name, doing,
                            kv::count_of(asked.num_known(), "token"), asked.num_computed));
    if (asked.ended || asked.waits() || asked.num_known() <= asked.num_slots) return;
    const std::string id = asked.name + "/next", next = page_.word(asked.known().back());
    const float right = std::max(viz::text_width(next, 12) + 12, 20.0f);
    const Place chip{at.right() - right - 4, at.y + 2, right, at.h - 4};
    const float w = viz::text_width("drawn", 12) + 6;
    scene_.label("request " + asked.name + "/drawn", {chip.x - w, at.y, w, at.h}, "drawn",
                 {.size = 12});
    const int last = std::max(asked.num_computed - 1, 0);
    const bool moves = ran_ && part_of(asked) != nullptr;
    const std::string from = moves ? page_.slot_id(asked, last) : "";
    scene_.box(id, chip, paint(Ink::kCell), viz::full(asked.hue)).comes_from(from, kDrawn).radius =
        3;
    scene_.label(id + "/token", chip, next, {.size = 12, .align = viz::Align::kCentre})
        .comes_from(from, kDrawn);
  }

  /// Draws a request's blocks with their slots, and what the last command did to them.
  void blocks(const Asked& asked, const Place& corner) {
    for (int i = 0; i < std::ssize(asked.ids); ++i) {
      const int32_t number = asked.ids[i];
      blocks_.draw(scene_, number, blocks_.block(i, corner), asked.hue,
                   fmt::format("{}, table entry {}: block {}", asked.name, i, number),
                   guessed_ ? kSeen : Span{});
      for (int t = i * blocks_.block_size; t < (i + 1) * blocks_.block_size; ++t) {
        slot(asked, t, blocks_.slot_of(t, corner));
      }
    }
    const Part* const part = part_of(asked);
    if (part == nullptr) return;
    if (now_.composed && part->proposed > 0) draw_ngrams(asked, *part);
    if (ran_) check_rows(asked, *part);
  }

  /// The request's part of the last pass; null if it has none.
  const Part* part_of(const Asked& asked) const {
    if (now_.passes.empty()) return nullptr;
    const auto part = std::ranges::find(now_.passes.back(), asked.id, &Part::id);
    return part == now_.passes.back().end() ? nullptr : &*part;
  }

  /// The state of the token in a slot: kFree for a guess, kReserved if it runs in this pass. Empty
  /// if there is no token.
  std::optional<State> state_of(const Asked& asked, int position) const {
    const Part* const part = part_of(asked);
    const int guess = part == nullptr ? -1 : position - part->first_guess();
    const bool judged = guess >= 0 && !now_.composed;
    if (position >= asked.num_slots) {
      return judged && guess < part->num_guesses() ? std::optional(State::kEvicted) : std::nullopt;
    }
    if (guess >= 0 && now_.composed) return State::kFree;
    if (position >= asked.num_computed) return State::kReserved;
    return judged && guess < part->accepted ? State::kFound : State::kInUse;
  }

  /// Draws a token in its slot: what it is, when it comes there, and from where.
  void slot(const Asked& asked, int position, const Place& at) {
    const std::string id = page_.slot_id(asked, position);
    const auto state = state_of(asked, position);
    const Part* const part = part_of(asked);
    const int count = part == nullptr ? 0 : part->num_guesses();
    const int guess = part == nullptr ? -1 : position - part->first_guess();
    std::string word;
    if (state == State::kFree || state == State::kEvicted) {
      word = page_.word(part->guesses[guess]);
    } else if (state) {
      word = page_.word(asked.text[position]);
    }
    Span when = {};
    if (part != nullptr && ran_) {
      when = viz::in_turn(kChecked, std::clamp(guess + 1, 0, count), count + 1);
    } else if (part != nullptr && guessed_) {
      when = guess >= 0 && guess < count ? viz::in_turn(kTravels, guess, count) : kRuns;
    }
    viz::Shape* const shape = blocks_.draw_slot(scene_, id, at, state, asked.hue, word, when);
    if (shape == nullptr || !guessed_) return;
    const bool runs = state == State::kReserved && asked.num_computed > 0;
    if (state == State::kFree) shape->from = page_.slot_id(asked, part->found + guess);
    if (runs) shape->from = asked.name + "/next";
    // A new token is written over one that was struck out.
    if (runs || state == State::kFree) scene_.ends(id + "/token", {0, 0.05f});
  }

  /// Marks the n-gram at the end and at its earlier place, and points from there to the guesses.
  void draw_ngrams(const Asked& asked, const Part& part) {
    const int known = part.first_guess();
    for (int i = 0; i < part.length; ++i) {
      for (const int position : {part.found - 1 - i, known - 1 - i}) {
        const std::string mark = fmt::format("{}/seen {}", asked.name, position);
        const viz::Shape* const box = scene_.find(page_.slot_id(asked, position));
        if (box == nullptr || scene_.find(mark) != nullptr) continue;  // the two may overlap
        const Place at = box->at;
        viz::twin_bar(scene_, mark, at).during(kSeen);
      }
    }
    const viz::Shape* const from = scene_.find(page_.slot_id(asked, part.found));
    const viz::Shape* const to = scene_.find(page_.slot_id(asked, known));
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

  /// Rings around the rows that are checked, one after the other. Guesses in a block that has gone
  /// back are struck out where they were.
  void check_rows(const Asked& asked, const Part& part) {
    const Asked& before = page_.before_.asked.at(asked.name);
    const int first = part.first_guess(), count = part.num_guesses();
    for (int i = -1; i < count; ++i) {
      const std::string id = page_.slot_id(asked, first + i);
      viz::ring(scene_, fmt::format("{}/row {}", asked.name, i), id, Ink::kMark,
                viz::in_turn(Span{0, 0.6f}, i + 1, count + 1));
      if (!id.empty()) continue;
      const std::string gone = page_.slot_id(before, first + i);
      scene_.ends(gone, kStruck);
      scene_.ends(gone + "/token", kStruck, true);
    }
  }

  const LookaheadPage& page_;
  const Shown& now_;
  viz::Scene scene_;
  Areas areas_;
  viz::WordBlocks blocks_;
  bool guessed_ = false, ran_ = false;  // by the last command
};

viz::Scene LookaheadPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

}  // namespace lesson09
