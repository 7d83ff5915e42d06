#include "viz/drawing/cards.h"

#include <fmt/format.h>

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
constexpr float kSmall = 300;             // a narrower card has words alone
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

float tall(const std::string& words, float size, float w) {
  return 1.4f * size * static_cast<float>(wrapped(words, size, w).size());
}

/// The largest size at which the words fit.
float size_for(const std::string& words, const Place& at, float most) {
  float size = most;
  while (size > 10 && tall(words, size, at.w) > at.h) size -= 0.5f;
  return size;
}

/// A disc with a sign, the name, and what it is about.
void words_of_card(Scene& scene, const Scenario& scenario, const Place& at) {
  const std::string id = "scenario/" + scenario.name;
  const float r = std::clamp(0.13f * at.h, 14.0f, 22.0f);
  const Place play{at.x, at.y, 2 * r, 2 * r};
  Shape& disc = scene.box(id + "/play", play, paint(Ink::kText));
  disc.radius = r;
  scene.label(id + "/play/sign", play, "\u25B6",
              {.size = r, .paint = paint(Ink::kGround), .align = Align::kCentre});
  const Place name{play.right() + 10, at.y, at.w - 2 * r - 10, 2 * r};
  const std::string title = title_of(scenario);
  const float size = size_for(title, name, 16);
  scene.paragraph(id + "/name",
                  {name.x, name.middle_y() - tall(title, size, name.w) / 2, name.w, name.h}, title,
                  {.size = size});
  const Place below{at.x, play.bottom() + 8, at.w, at.bottom() - play.bottom() - 8};
  const std::string sentence = first_sentence(scenario);
  const float small = size_for(sentence, below, 14);
  if (tall(sentence, small, below.w) > below.h) return;  // the name says enough
  scene.paragraph(id + "/says", below, sentence, {.size = small, .paint = {Ink::kDim}});
}

constexpr float kRatio = Cards::kStill.w / Cards::kStill.h;

float still_height(float card_w, float card_h) {
  const float w = card_w - 2 * kPad, h = card_h - 2 * kPad;
  return card_w > kLandscape * card_h ? std::min(h, 0.5f * w / kRatio)
                                      : std::min(w / kRatio, h - kWords);
}

/// A still, and words below it or, on a card that is much wider than tall, beside it.
void card(Scene& scene, const Scenario& scenario, const Place& at) {
  const std::string id = "scenario/" + scenario.name;
  scene.box(id, at, paint(Ink::kPanel), paint(Ink::kLine)).selecting(id).radius = 10;
  const Place inside = at.inset(kPad);
  if (at.w < kSmall) return words_of_card(scene, scenario, inside);
  const bool beside = at.w > kLandscape * at.h;
  const float tall = still_height(at.w, at.h);
  const Place still{inside.x, inside.y, tall * kRatio, tall};
  scene.box(id + "/still", still, paint(Ink::kGround)).radius = 4;
  const Place words =
      beside
          ? Place{still.right() + 12, inside.y, inside.right() - still.right() - 12, inside.h}
          : Place{inside.x, still.bottom() + 10, inside.w, inside.bottom() - still.bottom() - 10};
  words_of_card(scene, scenario, words);
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
  grid.area.y = field.middle_y() - grid.area.h / 2;
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
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    card(scene, scenarios_[i], grid.cell(static_cast<int>(i)));
  }
  scene.box("start", start, paint(Ink::kNone), paint(Ink::kLine))
      .selecting("start")
      .dashed_edge()
      .radius = 8;
  const char* where = room.w < 2 * kSmall ? "below" : "on the right";
  scene.label("start/text", start, fmt::format("Or start on your own: the controls are {}", where),
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
