#include "viz/drawing/cards.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "viz/drawing/parts.h"

namespace viz {
namespace {

constexpr float kLeastStill = 84;  // a lower one cannot be read: words alone
constexpr float kGap = 14;
constexpr float kName = 16, kSays = 14;  // of words that neither grow nor shrink
// Factors of these sizes. kSmallest is used only where nothing else fits.
constexpr float kLeastWords = 0.86f, kMostWords = 1.35f, kSmallest = 0.7f;

/// Space between a card's edge and its content.
float padding(float card_h) { return std::min(12.0f, 0.12f * card_h); }

bool is_live(const Scenario& scenario) {
  return std::ranges::any_of(scenario.commands,
                             [](const Command& command) { return command.verb == "live"; });
}

std::string first_sentence(const Scenario& scenario) {
  const auto say = std::ranges::find(scenario.commands, "say", &Command::verb);
  if (say == scenario.commands.end() || say->args.empty()) return {};
  const std::string& all = say->args[0];
  const size_t end = all.find(". ", 40);  // a short one says little alone
  return end == std::string::npos ? all : all.substr(0, end + 1);
}

int lines_of(const std::string& words, float size, float width) {
  return static_cast<int>(wrapped(words, size, width).size());
}

/// The words of all cards: their letters have the same size on each.
struct CardWords {
  std::vector<std::string> names, says;

  /// Radius of the play sign before a name.
  static float radius(float part) { return 0.95f * kName * part; }
  static float name_width(float width, float part) { return width - 2 * radius(part) - 10; }
  float name_height(float width, float part) const {
    int lines = 1;
    for (const std::string& name : names) {
      lines = std::max(lines, lines_of(name, kName * part, name_width(width, part)));
    }
    return std::max(2 * radius(part), 1.4f * kName * part * static_cast<float>(lines));
  }
  /// The height that the words of every card need.
  float height(float width, float part) const {
    int lines = 0;
    for (const std::string& text : says) {
      lines = std::max(lines, lines_of(text, kSays * part, width));
    }
    const float head = name_height(width, part);
    return lines == 0 ? head : head + 8 + 1.4f * kSays * part * static_cast<float>(lines);
  }
};

/// Whether the words of every card fit, and no word is wider than its line.
bool has_room(const CardWords& words, const Place& room, float part) {
  const auto widest = [](const std::vector<std::string>& texts, float size) {
    float most = 0;
    for (const std::string& text : texts) {
      for (const std::string& word : wrapped(text, size, 0)) {
        most = std::max(most, text_width(word, size));
      }
    }
    return most;
  };
  return widest(words.names, kName * part) <= CardWords::name_width(room.w, part) &&
         widest(words.says, kSays * part) <= room.w && words.height(room.w, part) <= room.h + 0.5f;
}

/// Where the parts of a card are, and how large its letters are.
struct CardParts {
  Place still = {}, words = {};
  float part = kLeastWords;  // times kName and kSays
};

/// Places a card's still and its words in `inside`. The still is `ratio` times as wide as tall. It
/// stands above the words if `share` is 0; else beside them, with at most that share of the width.
/// A still lower than kLeastStill is left out.
CardParts parts_of(const CardWords& words, const Place& inside, float ratio, float share) {
  if (share == 0) {
    const float rest = inside.h - words.height(inside.w, 1) - 10;
    const float tall = std::min(inside.w / ratio, rest);
    if (tall < kLeastStill) return {.words = inside};
    const Place still{inside.middle_x() - tall * ratio / 2, inside.y, tall * ratio, tall};
    const float top = still.bottom() + 10;
    return {.still = still, .words = {inside.x, top, inside.w, inside.bottom() - top}};
  }
  const float tall = std::min(share * inside.w / ratio, inside.h);
  const float left = inside.x + tall * ratio + 12, wide = inside.right() - left;
  const Place room{left, inside.y, wide, inside.h};
  if (tall < kLeastStill || !has_room(words, room, kLeastWords)) return {.words = inside};
  return {.still = {inside.x, inside.middle_y() - tall / 2, tall * ratio, tall}, .words = room};
}

/// Cards of equal size in rows, and the parts of each.
struct CardLayout {
  Grid grid;
  CardParts parts;
};

/// Returns the layout with the largest stills and few gaps after the last card. Its letters are
/// then made as large as they fit. The cards are no taller than that needs, centred in the field.
CardLayout layout_of(const CardWords& words, const Place& field) {
  const auto count = static_cast<int>(words.names.size());
  CardLayout best;
  float best_score = 0;
  for (int columns = 1; columns <= count; ++columns) {
    const int rows = (count + columns - 1) / columns;
    const auto c = static_cast<float>(columns), r = static_cast<float>(rows);
    const Grid grid{.area = field,
                    .columns = columns,
                    .w = (field.w - (c - 1) * kGap) / c,
                    .h = (field.h - (r - 1) * kGap) / r,
                    .gap = kGap};
    for (size_t way = 0; way < 8; ++way) {
      constexpr float kShares[] = {0, 0.4f, 0.5f, 0.6f};
      const Room& still = Cards::kStills[way % 2];
      const Place inside = Place{0, 0, grid.w, grid.h}.inset(padding(grid.h));
      const CardParts parts = parts_of(words, inside, still.w / still.h, kShares[way / 2]);
      const bool fits = has_room(words, parts.words, kLeastWords);
      const bool barely = has_room(words, parts.words, kSmallest);
      const float all = fits ? parts.still.w * parts.still.h + 1 : barely ? 0.1f : 1e-3f;
      const float score = all * static_cast<float>(count) / (c * r);
      const bool is_squarer = std::abs(std::log(grid.w / grid.h)) <
                              std::abs(std::log(best.grid.w / std::max(best.grid.h, 1.0f)));
      if (score < 1.02f * best_score && (score < 0.98f * best_score || !is_squarer)) continue;
      best = {grid, parts};
      best_score = score;
    }
  }
  Place& room = best.parts.words;
  float& part = best.parts.part;
  while (part < kMostWords && has_room(words, room, part + 0.04f)) part += 0.04f;
  while (part > kSmallest && !has_room(words, room, part)) part -= 0.04f;
  const float needs = std::max(room.y + words.height(room.w, part), best.parts.still.bottom());
  const float less = std::max(best.grid.h - needs - padding(best.grid.h), 0.0f);
  const auto rows = static_cast<float>((count + best.grid.columns - 1) / best.grid.columns);
  best.grid.h -= less;
  best.grid.area.h -= rows * less;
  best.grid.area.y += rows * less / 2;
  room.h -= less;
  return best;
}

/// A still; a disc with a sign, the name, and what it is about.
void card(Scene& scene, const std::string& id, const std::string& name, const std::string& says,
          const Place& at, const CardWords& words, const CardParts& parts) {
  const auto moved = [&](const Place& part) {
    return Place{at.x + part.x, at.y + part.y, part.w, part.h};
  };
  scene.box(id, at, paint(Ink::kPanel), paint(Ink::kLine)).selecting(id).radius = 10;
  if (parts.still.w > 0) {
    scene.box(id + "/still", moved(parts.still), paint(Ink::kGround)).radius = 4;
  }
  const Place room = moved(parts.words);
  const float r = CardWords::radius(parts.part), head = words.name_height(room.w, parts.part);
  const Place play{room.x, room.y + head / 2 - r, 2 * r, 2 * r};
  scene.box(id + "/play", play, paint(Ink::kText)).radius = r;
  scene.label(id + "/play/sign", play, "\u25B6",
              {.size = r, .paint = paint(Ink::kGround), .align = Align::kCentre});
  const float size = kName * parts.part, wide = CardWords::name_width(room.w, parts.part);
  const auto lines = static_cast<float>(lines_of(name, size, wide));
  const float top = room.y + head / 2 - 0.7f * size * lines;
  scene.paragraph(id + "/name", {play.right() + 10, top, wide, head}, name, {.size = size});
  scene.paragraph(id + "/says", {room.x, room.y + head + 8, room.w, room.h - head - 8}, says,
                  {.size = kSays * parts.part, .paint = {Ink::kDim}});
}

}  // namespace

Cards::Cards(PageInfo page, std::vector<Scenario> scenarios)
    : page_(std::move(page)), scenarios_(std::move(scenarios)), stills_(scenarios_.size()) {
  std::ranges::stable_sort(scenarios_, {}, [](const Scenario& one) {
    return std::pair(is_live(one), one.order > 0 ? one.order : INT_MAX);
  });
}

std::vector<std::string> Cards::targets() const {
  std::vector<std::string> targets;
  for (const Scenario& scenario : scenarios_) targets.push_back("scenario/" + scenario.name);
  targets.push_back("start");
  return targets;
}

Scene Cards::scene(const Room& room) const {
  const Room& before = scene_.room();
  const bool is_known = before.w == room.w && before.h == room.h && !scene_.shapes().empty();
  if (!is_known) scene_ = drawn(room);
  return scene_;
}

Scene Cards::drawn(const Room& room) const {
  Scene scene(room);
  const float x = 14, w = room.w - 28;
  scene.label("title", {x, 8, w, 34}, page_.title, {.size = 22});
  constexpr float kSummary = 15, kTop = 58;  // kTop: of the cards, without a summary
  const Place start{x, room.h - 40, w, 32};
  const auto field_below = [&](float top) { return Place{x, top, w, start.y - top - 12}; };
  const float summary = 1.4f * kSummary * static_cast<float>(lines_of(page_.summary, kSummary, w));
  CardWords words;
  for (const Scenario& scenario : scenarios_) {
    words.names.push_back(scenario.shown_title());
    words.says.push_back(first_sentence(scenario));
  }
  const auto fits = [&](const CardLayout& layout) {
    return has_room(words, layout.parts.words, layout.parts.part);
  };
  CardLayout layout = layout_of(words, field_below(kTop + summary));
  if (!fits(layout)) {
    // The sentences are left out, and if need be the summary, but no name.
    for (std::string& text : words.says) text.clear();
    layout = layout_of(words, field_below(kTop + summary));
  }
  if (fits(layout)) {
    scene.paragraph("summary", {x, 44, w, summary}, page_.summary,
                    {.size = kSummary, .paint = {Ink::kDim}});
  } else {
    layout = layout_of(words, field_below(kTop));
  }
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    card(scene, "scenario/" + scenarios_[i].name, words.names[i], words.says[i],
         layout.grid.cell(static_cast<int>(i)), words, layout.parts);
  }
  scene.box("start", start, paint(Ink::kNone), paint(Ink::kLine))
      .selecting("start")
      .dashed_edge()
      .radius = 8;
  scene.label("start/text", start.inset(6), "Or start on your own, with the page's buttons",
              {.size = 15, .align = Align::kCentre});
  return scene;
}

const Scene* Cards::still(std::string_view name, const Place& at) const {
  const auto scenario = std::ranges::find(scenarios_, name, &Scenario::name);
  if (scenario == scenarios_.end()) return nullptr;
  const auto differs = [&](const Scene& still) {
    return std::abs(still.room().w / still.room().h - at.w / at.h);
  };
  const Stills& stills = stills_[static_cast<size_t>(scenario - scenarios_.begin())];
  const Scene& best = *std::ranges::min_element(stills, {}, differs);
  return best.shapes().empty() ? nullptr : &best;
}

void Cards::begin(const PageFactory& make_pages) {
  for (std::unique_ptr<Page>& page : make_pages()) {
    if (page->info().lesson == page_.lesson) session_ = std::make_unique<Session>(std::move(page));
  }
  session_->load(scenarios_[drafted_]);
}

bool Cards::draft(const PageFactory& make_pages) {
  if (drafted_ == scenarios_.size()) return false;
  try {
    if (session_ == nullptr) begin(make_pages);
    session_->play_on(1);
    if (!session_->at_end()) return true;
  } catch (const kv::UserError&) {
    // A user's own scenario may fail; its still shows the state before the failing line.
  }
  for (size_t i = 0; i < std::size(kStills); ++i) {
    stills_[drafted_][i] = session_->page().scene(kStills[i]);
  }
  ++drafted_;
  session_.reset();
  return true;
}

}  // namespace viz
