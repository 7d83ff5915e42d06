// The page of lesson 01: which rows of K and V each pass computes, while the engine generates.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "common/base/error.h"
#include "engine.h"
#include "viz/live.h"
#include "viz/live_controls.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson01 {
namespace {

constexpr int kHue = 0;

class NoCachePage : public viz::Page {
 public:
  explicit NoCachePage(const viz::PageContext& context) : model_(context) {}

  viz::PageInfo info() const override;
  void reset() override { stop(); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override {
    return {"live", "tokens", "generated", "passes", "rows", "needed", "again", "last_rows"};
  }
  std::string next_step() const override { return live_ && !live_->finished() ? "step" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string start(const viz::Command& command);
  std::string story();
  void stop() {
    live_.reset();
    engine_.reset();
  }
  std::span<const int> passes() const {
    return engine_ ? engine_->rows_of_passes() : std::span<const int>();
  }
  std::vector<viz::TokenView> token_chips();
  viz::StepGridView grid();

  viz::LiveModel model_;
  std::unique_ptr<NoCacheEngine> engine_;    // borrows the model
  std::unique_ptr<viz::LiveRequests> live_;  // borrows the engine
  viz::LiveFields fields_;
};

viz::PageInfo NoCachePage::info() const {
  return {.lesson = "01",
          .title = "No cache",
          .summary = "Each pass computes K and V of every token again. One new row would do.",
          .commands = {"live \"PROMPT\" [TOKENS]    watch the engine continue a prompt",
                       "step [N]                 N more passes, each of which draws a token",
                       "stop                     end the run"}};
}

std::string NoCachePage::apply(const viz::Command& command) {
  if (command.verb == "live") return start(command);
  if (command.verb == "step") {
    viz::run_steps(live_.get(), command);
    return story();
  }
  if (command.verb == "stop") {
    command.check_count(0, 0);
    if (!live_) kv::user_error("stop: there is no live run");
    stop();
    return "the run is over; nothing was kept";
  }
  kv::user_error("{}: no such command; there are live, step, stop", command.verb);
}

std::string NoCachePage::start(const viz::Command& command) {
  command.check_count(1, 2);
  if (live_) kv::user_error("live: the engine is running already; `stop` ends it");
  const auto tokens =
      command.args.size() < 2 ? int64_t{40} : command.number(1, "a number of tokens", 1, 400);
  const kv::Request request = model_.request(command.word(0, "a prompt"), static_cast<int>(tokens));
  auto engine = std::make_unique<NoCacheEngine>(model_.model(), kv::EngineOptions{});
  live_ = std::make_unique<viz::LiveRequests>(*engine, std::vector<kv::Request>{request});
  engine_ = std::move(engine);
  return story();
}

std::string NoCachePage::story() {
  const int rows = passes().back();
  const size_t count = passes().size();
  const int before = count > 1 ? passes()[count - 2] : 0;
  if (live_->finished()) {
    return fmt::format("the run has ended after {} passes: {} rows of K and V, {} were needed",
                       count, *counter("rows"), *counter("needed"));
  }
  return fmt::format("pass {}: {} rows of K and V, {} of them again; draws \"{}\"", count, rows,
                     before, viz::token_text(model_.tokenizer(), live_->generated().back().id));
}

std::optional<int64_t> NoCachePage::counter(std::string_view name) const {
  const int64_t rows = std::accumulate(passes().begin(), passes().end(), int64_t{0});
  const int64_t needed = passes().empty() ? 0 : passes().back();
  if (name == "live") return live_ ? 1 : 0;
  if (name == "tokens") return live_ ? static_cast<int64_t>(live_->tokens(0).size()) : 0;
  if (name == "generated") return live_ ? static_cast<int64_t>(live_->generated().size()) : 0;
  if (name == "passes") return static_cast<int64_t>(passes().size());
  if (name == "rows") return rows;
  if (name == "needed") return needed;  // the last pass runs each token once
  if (name == "again") return rows - needed;
  if (name == "last_rows") return needed;
  return std::nullopt;
}

void NoCachePage::check_invariants() const {
  if (!live_) return;
  const size_t prompt = live_->requests()[0].prompt.size();
  for (size_t i = 0; i < passes().size(); ++i) {
    if (static_cast<size_t>(passes()[i]) != prompt + i) {
      throw std::logic_error("a pass of the engine does not run every known token");
    }
  }
}

std::vector<viz::TokenView> NoCachePage::token_chips() {
  std::vector<viz::TokenView> chips;
  const std::vector<int32_t> tokens = live_->tokens(0);
  const auto computed = static_cast<size_t>(passes().empty() ? 0 : passes().back());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool prompt = i < live_->requests()[0].prompt.size();
    chips.push_back({.text = viz::token_text(model_.tokenizer(), tokens[i]),
                     .hue = kHue,
                     .strength = i >= computed ? 0.0f
                                 : prompt      ? 0.4f
                                               : 1.0f,
                     .tooltip = fmt::format("token {}: {}", i,
                                            i >= computed ? "drawn, not run yet"
                                            : prompt      ? "of the prompt"
                                                          : "generated")});
  }
  return chips;
}

viz::StepGridView NoCachePage::grid() {
  viz::StepGridView view;
  view.kinds = {{.name = "computed for the first time", .hue = 2},
                {.name = "computed again: the same row as before", .hue = 1, .strength = 0.75f}};
  for (const int32_t token : live_->tokens(0)) {
    view.columns.push_back(viz::token_text(model_.tokenizer(), token));
  }
  int before = 0;
  for (const int rows : passes()) {
    viz::StepGridView::Row row{.label = fmt::format("pass {}", view.rows.size() + 1), .cells = {}};
    for (int token = 0; token < rows; ++token) row.cells.push_back(token < before ? 1 : 0);
    view.rows.push_back(std::move(row));
    before = rows;
  }
  return view;
}

void NoCachePage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  const int64_t rows = *counter("rows");
  viz::counters(
      ui, "counters",
      {{"passes", count("passes"), "Forward passes: one for each token that is drawn."},
       {"rows of K and V", count("rows"), "Rows that all passes computed together."},
       {"needed", count("needed"), "Rows that differ: one for each token that was run."},
       {"again", count("again"), "Rows that had been computed before and were thrown away."},
       {"share again",
        rows > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(*counter("again")) /
                                               static_cast<double>(rows))
                 : "-",
        "Of the rows computed, those that had been there before."}});
  if (!live_) {
    ui.heading("Watch the engine");
    viz::draw_live_start(ui, fields_, "Generate",
                         "The engine of this lesson continues the prompt, one token a step.");
    ui.hint("Before you press: how many rows will 40 tokens after a prompt of 4 cost?");
    return;
  }
  viz::draw_live_steps(ui, live_->finished());
  ui.heading("Tokens");
  viz::token_row(ui, "tokens", token_chips());
  ui.heading("A row for each pass, a cell for each row of K and V that it computes");
  viz::step_grid(ui, "grid", grid());
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<NoCachePage>(context);
}

}  // namespace lesson01
