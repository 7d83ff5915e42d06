#include "viz/cards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/error.h"
#include "viz/parts.h"

namespace viz {
namespace {

bool is_live(const Scenario& scenario) {
  return std::ranges::any_of(scenario.commands,
                             [](const Command& command) { return command.verb == "live"; });
}

std::string first_sentence(const Scenario& scenario) {
  const auto say = std::ranges::find(scenario.commands, "say", &Command::verb);
  return say == scenario.commands.end() || say->args.empty() ? "" : say->args[0];
}

std::string title_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

/// The largest size at which the words fit.
float size_for(const std::string& words, const Place& at, float most) {
  float size = most;
  while (size > 10 && 1.4f * size * static_cast<float>(wrapped(words, size, at.w).size()) > at.h) {
    size -= 0.5f;
  }
  return size;
}

void card(Scene& scene, const Scenario& scenario, const Place& at) {
  const std::string id = "scenario/" + scenario.name;
  scene.box(id, at, paint(Ink::kPanel), paint(Ink::kLine)).selecting(id).radius = 10;
  const Place inside = at.inset(12);
  const float ratio = Cards::kStill.h / Cards::kStill.w;
  const float tall = std::min(inside.w * ratio, inside.h - 96);
  const Place still{inside.middle_x() - tall / ratio / 2, inside.y, tall / ratio, tall};
  scene.box(id + "/still", still, paint(Ink::kGround)).radius = 4;

  const float r = std::clamp(0.16f * tall, 15.0f, 26.0f);
  const float y = still.bottom() + 10;
  const Place play{inside.right() - 2 * r, y, 2 * r, 2 * r};
  Shape& disc = scene.box(id + "/play", play, paint(Ink::kText));
  disc.radius = r;
  scene.label(id + "/play/sign", play, "\u25B6",
              {.size = r, .paint = paint(Ink::kGround), .align = Align::kCentre});
  const Place words{inside.x, y, inside.w - 2 * r - 10, inside.bottom() - y};
  scene.label(id + "/name", {words.x, y, words.w, 20}, title_of(scenario.name), {.size = 16});
  const Place below{words.x, y + 24, words.w, words.h - 24};
  const std::string sentence = first_sentence(scenario);
  scene.paragraph(id + "/says", below, sentence,
                  {.size = size_for(sentence, below, 14), .paint = {Ink::kDim}});
}

}  // namespace

Cards::Cards(PageInfo page, std::vector<Scenario> scenarios)
    : page_(std::move(page)),
      scenarios_(std::move(scenarios)),
      stills_(scenarios_.size()),
      order_(scenarios_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::stable_partition(order_, [&](size_t i) { return !is_live(scenarios_[i]); });
}

Scene Cards::scene(const Room& room) const {
  Scene scene(room);
  const float x = 14, w = room.w - 28;
  scene.label("title", {x, 8, w, 34}, page_.title, {.size = 26});
  const float top = 48 + scene.paragraph("summary", {x, 44, w, 40}, page_.summary,
                                         {.size = 15, .paint = {Ink::kDim}});
  const Place start{x, room.h - 40, w, 32};
  const Place field{x, top + 10, w, start.y - top - 22};
  Grid grid = fit(static_cast<int>(scenarios_.size()), field,
                  {.gap = 14, .flattest = 0.8f, .widest = 1.25f, .most_w = 620});
  grid.area.x = field.middle_x() - grid.area.w / 2;
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    card(scene, scenarios_[i], grid.cell(static_cast<int>(i)));
  }
  scene.box("start", start, paint(Ink::kNone), paint(Ink::kLine))
      .selecting("start")
      .dashed_edge()
      .radius = 8;
  scene.label("start/text", start, "Or start on your own, with the controls beside this",
              {.size = 15, .align = Align::kCentre});
  return scene;
}

const Scene* Cards::still(std::string_view name) const {
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    if (scenarios_[i].name == name && !stills_[i].shapes().empty()) return &stills_[i];
  }
  return nullptr;
}

void Cards::begin(const PageFactory& make_pages, size_t card) {
  for (std::unique_ptr<Page>& page : make_pages()) {
    if (page->info().lesson == page_.lesson) session_ = std::make_unique<Session>(std::move(page));
  }
  session_->load(scenarios_[card]);
}

bool Cards::draft(const PageFactory& make_pages) {
  if (drafted_ == order_.size()) return false;
  const size_t card = order_[drafted_];
  try {
    if (session_ == nullptr) begin(make_pages, card);
    session_->play_on(1);
    if (!session_->at_end()) return true;
  } catch (const kv::UserError&) {
    // Somebody's own scenario may not hold: its still is what came before.
  }
  stills_[card] = session_->page().scene(kStill);
  session_.reset();
  ++drafted_;
  return true;
}

}  // namespace viz
