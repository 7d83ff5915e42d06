#include <fmt/format.h>

#include <algorithm>

#include "lessons/07_lru_eviction/page_pool.h"
#include "page_scheduler.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson08 {

constexpr size_t kMostColumns = 90;

void SchedulerPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  viz::counters(
      ui, "counters",
      {{"passes", count("passes"), "Forward passes so far."},
       {"running", count("running"), "Requests that hold blocks."},
       {"waiting", count("waiting"), "Requests that hold none: new ones, and preempted ones."},
       {"free", count("free") + " / " + count("total"), "Blocks in the free queue."},
       {"budget", fmt::format("{} / {}", *counter("rows"), settings_.budget),
        "Tokens of the last pass, of those that a pass may have."},
       {"preemptions", count("preemptions"), "Running requests that had to give way."},
       {"found", count("found"), "Tokens that came from the cache when a request started."}});
  draw_controls(ui);
  draw_grid(ui);
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui);
  ui.next_column();
  draw_pass(ui);
  ui.end_columns();
}

void SchedulerPage::draw_controls(viz::Ui& ui) {
  ui.number("prompt", "prompt", &prompt_, 1, 512, "Tokens of the next prompt.");
  ui.same_line();
  ui.number("max", "to generate", &max_tokens_, 1, 512, "Tokens of its answer.");
  ui.same_line();
  ui.number("priority", "priority", &priority_, -9, 9, "The smallest number first.");
  ui.same_line();
  const int slots = prompt_ + max_tokens_ - 1;
  const int needed = blocks_for(slots, settings_.block_size);
  std::string why;
  if (seen_.size() >= kMostRequests) why = "the page shows no more requests; start anew";
  if (needed > settings_.num_blocks) {
    why = fmt::format("it needs {} blocks, the pool has {}", needed, settings_.num_blocks);
  }
  ui.button("submit", "Submit",
            fmt::format("submit {} {} {} {}", free_name(), prompt_, max_tokens_, priority_),
            "A request comes. The first 16 tokens of all prompts are the same.", why);
  const char* idle = scheduler_->idle() ? "there is nothing to do" : "";
  ui.button("step", "Pass", "step", "One pass. Play and the Right arrow do this, too.", idle);
  ui.same_line();
  ui.button("step 10", "10 passes", "step 10", "Ten passes.", idle);
  ui.same_line();
  const int take = std::min(4, manager_->pool().num_free());
  ui.button("shrink", "Shrink the pool by 4", fmt::format("shrink {}", std::max(take, 1)),
            "Take free blocks away: who grows next may have to preempt somebody.",
            manager_->pool().num_free() == 0 ? "no block is free" : "");
  ui.same_line();
  ui.button("grow", "Give them back", "grow", "The pool has all its blocks again.",
            manager_->holds(kBallast) ? "" : "none was taken away");
  ui.same_line();
  const bool first = settings_.order == Order::kFirstCome;
  ui.button("order", first ? "By priority" : "First come", first ? "order priority" : "order first",
            "Start anew with the other order.");
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

void SchedulerPage::draw_pass(viz::Ui& ui) {
  ui.heading("The last pass");
  if (last_.empty()) {
    ui.hint("No pass has run.");
  } else {
    viz::PiecesView view;
    for (const Chunk& chunk : last_) {
      const Seen& seen = seen_.at(static_cast<size_t>(chunk.id));
      view.pieces.push_back({.label = fmt::format("{}: {}", seen.name, chunk.num_tokens),
                             .tooltip = fmt::format("{} tokens of {}", chunk.num_tokens, seen.name),
                             .group = 0});
    }
    view.done = static_cast<int>(view.pieces.size());
    viz::pieces(ui, "pass", view);
  }
  ui.heading("Block tables");
  for (const Seen& seen : seen_) {
    if (seen.ended || !manager_->holds(seen.id)) continue;
    const BlockTable& table = manager_->table(seen.id);
    viz::TableView view{.sequence = {seen.name, seen.hue},
                        .block_ids = {table.block_ids().begin(), table.block_ids().end()},
                        .ref_cnts = {},
                        .num_tokens = table.num_tokens(),
                        .block_size = table.block_size(),
                        .highlight_token = {}};
    for (const int32_t id : table.block_ids()) {
      view.ref_cnts.push_back(manager_->pool().block(id).ref_cnt);
    }
    viz::block_table(ui, seen.name + "/table", view);
  }
  ui.heading("Kill");
  bool one = false;
  for (const Seen& seen : seen_) {
    if (seen.ended) continue;
    if (one) ui.same_line();
    one = true;
    ui.button(seen.name + "/kill", seen.name, "kill " + seen.name,
              "It ends now, whatever it does: its blocks are free at once.");
  }
  if (!one) ui.hint("Nobody is there.");
}

void SchedulerPage::draw_pool(viz::Ui& ui) {
  const BlockPool& pool = manager_->pool();
  viz::PoolView view = lesson07::pool_view(pool);
  for (const Seen& seen : seen_) {
    view.sequences.push_back({seen.name, seen.hue});
    if (!seen.ended && manager_->holds(seen.id)) {
      lesson07::add_owner(view, manager_->table(seen.id), seen.hue);
    }
  }
  if (manager_->holds(kBallast)) lesson07::add_owner(view, manager_->table(kBallast), 7);
  ui.heading(lesson07::pool_heading(pool));
  viz::pool_grid(ui, "pool", view);
}

}  // namespace lesson08
