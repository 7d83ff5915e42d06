#include "viz/drawing/cards.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "viz/drawing/parts.h"

namespace viz {
namespace {

constexpr float kLandscape = 1.5f;        // wider cards (in heights) have words beside the still
constexpr float kLeastStill = 84;         // a lower one cannot be read: words alone
constexpr float kPad = 12, kWords = 110;  // around a card's content; of the words below a still

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

std::string title_of(const Scenario& scenario) {
  if (!scenario.title.empty()) return scenario.title;
  std::string name = scenario.name;
  std::ranges::replace(name, '_', ' ');
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

constexpr float kRatio = Cards::kStill.w / Cards::kStill.h;

float still_height(float card_w, float card_h) {
  const float w = card_w - 2 * kPad, h = card_h - 2 * kPad;
  return card_w > kLandscape * card_h ? std::min(h, 0.5f * w / kRatio)
                                      : std::min(w / kRatio, h - kWords);
}

/// Where the parts of a card are, and the sizes of its letters, which are the same on all cards.
struct CardParts {
  Place still = {}, play = {}, name = {}, says = {};
  float name_size = 16, says_size = 14;
};

/// The still stands above the words, or beside them on a card that is much wider than tall.
CardParts parts_of(const Place& at, int title_lines) {
  const Place inside = at.inset(kPad);
  const float tall = still_height(at.w, at.h);
  CardParts parts;
  Place words = inside;
  if (tall < kLeastStill) {
    parts.still = {};
  } else if (at.w > kLandscape * at.h) {
    parts.still = {inside.x, inside.y, tall * kRatio, tall};
    words.x = parts.still.right() + 12;
    words.w = inside.right() - words.x;
  } else {
    parts.still = {inside.middle_x() - tall * kRatio / 2, inside.y, tall * kRatio, tall};
    words.y = parts.still.bottom() + 10;
    words.h = inside.bottom() - words.y;
  }
  const float r = std::clamp(0.13f * words.h, 14.0f, 22.0f);
  const float head = std::max(2 * r, 1.4f * parts.name_size * static_cast<float>(title_lines));
  parts.play = {words.x, words.y + head / 2 - r, 2 * r, 2 * r};
  parts.name = {parts.play.right() + 10, words.y, words.w - 2 * r - 10, head};
  parts.says = {words.x, words.y + head + 8, words.w, words.h - head - 8};
  return parts;
}

int lines_of(const std::string& words, float size, const Place& at) {
  return static_cast<int>(wrapped(words, size, at.w).size());
}

/// The parts of a card of this size, with letters that let the words of every scenario fit.
CardParts fitting_parts(const std::vector<Scenario>& scenarios, const Place& at) {
  int most_lines = 1;
  for (const Scenario& scenario : scenarios) {
    const CardParts parts = parts_of(at, 1);
    most_lines = std::max(most_lines, lines_of(title_of(scenario), parts.name_size, parts.name));
  }
  CardParts parts = parts_of(at, std::min(most_lines, 2));
  const auto fits = [](float size, const std::string& words, const Place& room) {
    return 1.4f * size * static_cast<float>(lines_of(words, size, room)) <= room.h;
  };
  const auto shrink = [&](float& size, const std::string& words, const Place& room) {
    while (size > 10 && !fits(size, words, room)) size -= 0.5f;
  };
  for (const Scenario& scenario : scenarios) {
    shrink(parts.name_size, title_of(scenario), parts.name);
    shrink(parts.says_size, first_sentence(scenario), parts.says);
    if (!fits(parts.says_size, first_sentence(scenario), parts.says)) parts.says_size = 0;
  }
  return parts;
}

/// A still; a disc with a sign, the name, and what it is about.
void card(Scene& scene, const Scenario& scenario, const Place& at, const CardParts& parts) {
  const std::string id = "scenario/" + scenario.name;
  const auto moved = [&](const Place& part) {
    return Place{at.x + part.x, at.y + part.y, part.w, part.h};
  };
  scene.box(id, at, paint(Ink::kPanel), paint(Ink::kLine)).selecting(id).radius = 10;
  if (parts.still.w > 0) {
    scene.box(id + "/still", moved(parts.still), paint(Ink::kGround)).radius = 4;
  }
  const float r = parts.play.h / 2;
  scene.box(id + "/play", moved(parts.play), paint(Ink::kText)).radius = r;
  scene.label(id + "/play/sign", moved(parts.play), "\u25B6",
              {.size = r, .paint = paint(Ink::kGround), .align = Align::kCentre});
  const std::string title = title_of(scenario);
  Place name = moved(parts.name);
  const int lines = lines_of(title, parts.name_size, name);
  name.y = name.middle_y() - 0.7f * parts.name_size * static_cast<float>(lines);
  scene.paragraph(id + "/name", name, title, {.size = parts.name_size});
  if (parts.says_size == 0) return;  // the card is too low
  scene.paragraph(id + "/says", moved(parts.says), first_sentence(scenario),
                  {.size = parts.says_size, .paint = {Ink::kDim}});
}

/// Cards that stand or lie, whichever have larger stills; no taller than their content needs.
Grid grid_of(size_t count, const Place& field) {
  const auto cards = static_cast<int>(count);
  const Grid lying = fit(cards, field, {.gap = 14, .flattest = 1.9f, .widest = 3, .most_w = 700});
  Grid grid = fit(cards, field, {.gap = 14, .flattest = 0.9f, .widest = 1.25f, .most_w = 620});
  if (still_height(lying.w, lying.h) > still_height(grid.w, grid.h)) grid = lying;
  const auto rows = std::round((grid.area.h + grid.gap) / (grid.h + grid.gap));
  if (grid.w < kLandscape * grid.h) {
    grid.h = std::min(grid.h, (grid.w - 24) * Cards::kStill.h / Cards::kStill.w + 150);
  }
  grid.area.h = rows * (grid.h + grid.gap) - grid.gap;
  grid.area.x = field.middle_x() - grid.area.w / 2;
  return grid;
}

}  // namespace

Cards::Cards(PageInfo page, std::vector<Scenario> scenarios)
    : page_(std::move(page)), scenarios_(std::move(scenarios)), stills_(scenarios_.size()) {
  std::ranges::stable_sort(scenarios_, {}, [](const Scenario& one) {
    return std::pair(is_live(one), one.order > 0 ? one.order : INT_MAX);
  });
}

Scene Cards::scene(const Room& room) const {
  Scene scene(room);
  const float x = 14, w = room.w - 28;
  scene.label("title", {x, 8, w, 34}, page_.title, {.size = 22});
  const float top = 48 + scene.paragraph("summary", {x, 44, w, 40}, page_.summary,
                                         {.size = 15, .paint = {Ink::kDim}});
  const Place start{x, room.h - 40, w, 32};
  const Place field{x, top + 10, w, start.y - top - 22};
  const Grid grid = grid_of(scenarios_.size(), field);
  const CardParts parts = fitting_parts(scenarios_, {0, 0, grid.w, grid.h});
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    card(scene, scenarios_[i], grid.cell(static_cast<int>(i)), parts);
  }
  scene.box("start", start, paint(Ink::kNone), paint(Ink::kLine))
      .selecting("start")
      .dashed_edge()
      .radius = 8;
  scene.label("start/text", start, "Or start on your own, with the page's buttons",
              {.size = 15, .align = Align::kCentre});
  return scene;
}

const Scene* Cards::still(std::string_view name) const {
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    if (scenarios_[i].name == name && !stills_[i].shapes().empty()) return &stills_[i];
  }
  return nullptr;
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
  stills_[drafted_++] = session_->page().scene(kStill);
  session_.reset();
  return true;
}

}  // namespace viz
