#include <fmt/format.h>

#include <algorithm>

#include "lessons/07_lru_eviction/page_pool.h"
#include "page_scheduler.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson08 {

constexpr size_t kMostColumns = 90;

void SchedulerPage::draw(viz::Ui& ui) {
  draw_controls(ui);
  draw_grid(ui);
  ui.begin_columns({0.4f, 0.6f});
  const std::vector<viz::TableView> tables = draw_pool(ui);
  ui.next_column();
  draw_pass(ui, tables);
  ui.end_columns();
}

void SchedulerPage::draw_controls(viz::Ui& ui) {
  form(ui, {"submit", "Submit", "submit " + seen_.free_name()});
  const int num_free = pool_->num_free();
  const bool first = settings_.order == Order::kFirstCome;
  buttons(
      ui,
      {{"step", "Pass", "step"},
       {"step 10", "10 passes", "step 10"},
       {"shrink", "Shrink the pool by 4", fmt::format("shrink {}", std::clamp(num_free, 1, 4))},
       {"grow", "Give them back", "grow"},
       {"forget", "Forget the cache", "forget"},
       {"order", first ? "By priority" : "First come", first ? "order priority" : "order first"},
       {"gate", settings_.gate ? "No admission gate" : "Admission gate",
        settings_.gate ? "gate off" : "gate on"}});
}

void SchedulerPage::draw_grid(viz::Ui& ui) {
  ui.heading("Requests over time: a row for each, a column for each pass");
  if (seen_.empty()) {
    ui.hint("None yet. Press Submit a few times, then Pass, or Play.");
    return;
  }
  viz::StepGridView view;
  view.kinds = {{"not there", 7, 0.05f}, {"waits", 7, 0.35f},    {"prompt", 1, 0.9f},
                {"decodes", 0, 0.9f},    {"preempted", 4, 0.9f}, {"ended", 7, 0.08f}};
  const auto total = static_cast<size_t>(num_passes_);
  const size_t first = total > kMostColumns ? total - kMostColumns : 0;
  for (const Seen& seen : seen_) {
    viz::StepGridView::Row row{
        .label = fmt::format("{} {}/{}", seen.name, seen.generated, seen.max_tokens), .cells = {}};
    row.cells.assign(seen.marks.begin() + static_cast<std::ptrdiff_t>(first), seen.marks.end());
    view.rows.push_back(std::move(row));
  }
  viz::step_grid(ui, "grid", view);
}

void SchedulerPage::draw_pass(viz::Ui& ui, const std::vector<viz::TableView>& tables) {
  ui.heading("The last pass");
  if (last_.chunks.empty()) {
    ui.hint("No pass has run.");
  } else {
    viz::PiecesView view;
    for (const Chunk& chunk : last_.chunks) {
      const std::string& name = std::ranges::find(seen_, chunk.id, &Seen::hue)->name;
      view.pieces.push_back(
          {.label = fmt::format("{}: {}", name, chunk.num_tokens),
           .tooltip = fmt::format("{} of {}", kv::count_of(chunk.num_tokens, "token"), name),
           .group = 0});
    }
    view.done = static_cast<int>(view.pieces.size());
    viz::pieces(ui, "pass", view);
  }
  ui.heading("Block tables");
  for (const viz::TableView& table : tables) {
    viz::block_table(ui, table.sequence.name + "/table", table);
  }
  ui.heading("Kill");
  std::vector<viz::Button> kills;
  for (const Seen& seen : seen_) {
    if (!seen.ended) kills.push_back({seen.name + "/kill", seen.name, "kill " + seen.name});
  }
  buttons(ui, kills);
  if (kills.empty()) ui.hint("Nobody is there.");
}

/// Returns the tables of those who hold blocks.
std::vector<viz::TableView> SchedulerPage::draw_pool(viz::Ui& ui) {
  const BlockPool& pool = *pool_;
  viz::PoolView view = lesson07::pool_view(pool);
  const auto add = [&](const viz::SequenceView& sequence, int64_t id) {
    const BlockTable& table = manager_->table(id);
    return view.add(sequence, table.block_ids(), table.num_tokens());
  };
  std::vector<viz::TableView> tables;
  for (const Seen& seen : seen_) {
    if (!seen.ended && manager_->holds(seen.hue)) tables.push_back(add(seen, seen.hue));
  }
  if (manager_->holds(kBallast)) add({"nobody", 7}, kBallast);
  ui.heading(lesson07::pool_heading(pool));
  viz::pool_grid(ui, "pool", view);
  return tables;
}

}  // namespace lesson08
