// The page of lesson 01: which rows of K and V each pass computes, while the engine generates.

#include "viz/page.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/table.h"
#include "engine.h"
#include "scene.h"
#include "viz/live.h"
#include "viz/ui.h"

namespace lesson01 {
namespace {

constexpr char kStory[] = "live \"Once upon a time\" 40";

class NoCachePage : public viz::Page {
 public:
  explicit NoCachePage(const viz::PageContext& context);

  void reset() override {
    live_.stop();
    changed();
  }
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override { return triangle_scene(room, shown_); }
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

 private:
  std::string story();
  /// Rows of each pass of the engine.
  std::span<const int> passes() const {
    if (!live_.running()) return {};
    return live_.engine<NoCacheEngine>().rows_of_passes();
  }

  viz::Live live_;
  TriangleView shown_;
};

NoCachePage::NoCachePage(const viz::PageContext& context)
    : Page({.lesson = "01",
            .title = "No cache",
            .summary = "Each pass computes K and V of every token again. One new row would do.",
            .opening = {kStory, "step 9"},
            .tall = 440}),
      live_(context) {
  declare(live_.verbs(
      "watch the engine continue the prompt, one token a step",
      [this](const std::string& prompt, int tokens) {
        live_.start(make_engine(live_.model(), {}), {live_.request(prompt, tokens)});
      },
      [this] { return story(); }));
}

std::string NoCachePage::story() {
  const size_t count = passes().size();
  const int rows = passes().back(), before = count > 1 ? passes()[count - 2] : 0;
  if (live_.finished()) {
    return fmt::format("The run has ended after {}: {} rows were computed, and {} were needed.",
                       kv::count_of(std::ssize(passes()), "pass"), *counter("rows"), rows);
  }
  return fmt::format("Pass {} computes {}, {} of them again. The model says \"{}\".", count,
                     kv::count_of(rows, "row"), before, live_.word(live_.generated().back().id));
}

std::vector<viz::Counter> NoCachePage::counters() const {
  const int64_t rows = std::accumulate(passes().begin(), passes().end(), int64_t{0});
  const int64_t needed = passes().empty() ? 0 : passes().back();  // the last runs each token once
  return {{"live", live_.running()},
          {"tokens", live_.running() ? std::ssize(live_.tokens(0)) : 0},
          {"generated", std::ssize(live_.generated())},
          {"passes", std::ssize(passes()), "passes",
           "Forward passes: one for each token that is drawn."},
          {"rows", rows, "rows of K and V", "Rows that all passes computed together."},
          {"needed", needed, "needed", "Rows that differ: one for each token that was run."},
          {"again", rows - needed, "computed again",
           "Rows that had been computed before and were thrown away."},
          viz::share("again_permille", rows - needed, rows, "of the rows",
                     "Of the rows computed, those that had been there before.")};
}

void NoCachePage::check_invariants() const {
  if (!live_.running()) return;
  const size_t prompt = live_.requests()[0].prompt.size();
  for (size_t i = 0; i < passes().size(); ++i) {
    if (static_cast<size_t>(passes()[i]) != prompt + i) {
      throw std::logic_error("a pass of the engine does not run every known token");
    }
  }
}

void NoCachePage::changed() {
  TriangleView now;
  if (live_.running()) {
    now.passes = {passes().begin(), passes().end()};
    for (const int32_t token : live_.tokens(0)) now.words.push_back(live_.word(token));
    if (now.passes.size() > shown_.passes.size()) now.seen = shown_.passes.size();
  }
  shown_ = std::move(now);
}

std::vector<viz::Button> NoCachePage::actions() const {
  if (live_.running()) return live_.steps();
  return {{"generate", "Generate", kStory, "", 'G', true}};
}

void NoCachePage::draw(viz::Ui& ui) {
  ui.hint("Before you press: how many rows will 40 tokens after a prompt of 4 cost?");
  ui.heading("Watch the engine");
  form(ui, {"live/start", "Generate", "live"});
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<NoCachePage>(context);
}

}  // namespace lesson01
