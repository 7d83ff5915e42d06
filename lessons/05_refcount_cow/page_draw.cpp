#include "page_draw.h"

#include <fmt/format.h>

#include <bit>
#include <span>
#include <vector>

#include "viz/scenario.h"
#include "viz/widgets.h"

namespace lesson05 {
namespace {

/// "+10": appends to one sequence, or to all.
void append_button(viz::Ui& ui, const Simulator& simulator, const std::string& who, int count,
                   const std::string& label, const std::string& id) {
  const bool all = who == "all";
  const std::vector<std::string> names = all ? simulator.names() : std::vector<std::string>{who};
  const std::string tooltip =
      all ? fmt::format("Append {} to every sequence, or to none if the pool cannot hold them all.",
                        count_of(count, "token"))
          : fmt::format("Append {} to {}. A shared last block that is not full is copied first.",
                        count_of(count, "token"), who);
  ui.button(fmt::format("{}/append {}", who, id), label, fmt::format("append {} {}", who, count),
            tooltip, simulator.why_not_append(names, count));
}

void append_buttons(viz::Ui& ui, const PageFields& fields, const Simulator& simulator,
                    const std::string& who) {
  for (const int count : {1, 10, 16, 64}) {
    append_button(ui, simulator, who, count, fmt::format("+{}", count), std::to_string(count));
    ui.same_line();
  }
  append_button(ui, simulator, who, fields.custom, fmt::format("+{}", fields.custom), "custom");
}

void draw_toolbar(viz::Ui& ui, PageFields& fields, const Simulator& simulator) {
  const std::vector<std::string> next = simulator.free_names(1);
  ui.button("new", "New sequence", "new " + next[0],
            "A sequence with an empty block table. It takes no block before its first token.",
            simulator.why_no_more(1));
  ui.same_line();
  ui.label("   all:");
  ui.same_line();
  append_buttons(ui, fields, simulator, "all");
  ui.same_line();
  ui.number("custom", "tokens", &fields.custom, 1, 65536,
            "How many tokens the last of the append buttons appends.");
}

void draw_sizes(viz::Ui& ui, PageFields& fields) {
  ui.number("blocks", "blocks", &fields.num_blocks, 1, Simulator::kMaxBlocks,
            "Blocks of the next pool.");
  ui.same_line();
  int size = fields.block_size;
  ui.number("block size", "tokens each", &size, 1, 256,
            "Tokens in each block of the next pool: a power of two.");
  // + and - lead to the next power of two.
  const auto wanted = static_cast<unsigned>(size);
  fields.block_size =
      static_cast<int>(size > fields.block_size ? std::bit_ceil(wanted) : std::bit_floor(wanted));
  ui.same_line();
  ui.button("resize", "New pool", fmt::format("resize {} {}", fields.num_blocks, fields.block_size),
            "Drop all sequences and begin with an empty pool of this size.");
}

void draw_live_start(viz::Ui& ui, PageFields& fields) {
  ui.heading("Watch the engine");
  ui.text("live/prompt", "prompt", &fields.prompt, "What the shipped model is to continue.");
  ui.number("live/n", "sequences", &fields.live_n, 1, LiveSharing::kMaxSequences,
            "Samples, or beams.");
  ui.same_line();
  const std::string n = std::to_string(fields.live_n);
  const char* why = fields.prompt.empty() ? "the prompt is empty" : "";
  ui.button("live/samples", "Draw samples",
            viz::Command{.verb = "live", .args = {n, fields.prompt}}.text(),
            "The prompt is computed once, then forked: each sample draws its own tokens.", why);
  ui.same_line();
  ui.button("live/beams", "Beam search",
            viz::Command{.verb = "live", .args = {"beams", n, fields.prompt}}.text(),
            "The best continuations by log probability: beams fork and die at every step.", why);
}

void draw_sequence_buttons(viz::Ui& ui, const PageFields& fields, const Simulator& simulator,
                           const std::string& name) {
  append_buttons(ui, fields, simulator, name);
  ui.same_line();
  for (const int count : {1, 3}) {
    std::string command = "fork " + name;
    for (const std::string& child : simulator.free_names(count)) command += " " + child;
    ui.button(fmt::format("{}/fork {}", name, count), count == 1 ? "fork" : "fork x3", command,
              "Sequences with the same tokens in the same blocks: no block is taken, none copied.",
              simulator.why_no_more(count));
    ui.same_line();
  }
  ui.button(name + "/free", "free", "free " + name,
            "Drop the sequence: blocks that nobody else holds go back to the pool.");
}

void draw_pool(viz::Ui& ui, const PageView& view) {
  ui.heading(fmt::format("Pool: {} of {} tokens", count_of(view.pool.blocks.size(), "block"),
                         view.pool.block_size));
  viz::pool_grid(ui, "pool", view.pool);
}

/// What was told, when the blocks are gone.
void draw_texts(viz::Ui& ui, const LiveSharing& live) {
  const std::vector<std::string> texts = live.texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    ui.hint(fmt::format("{}: {}", sequence_name(static_cast<int>(i)), texts[i]));
  }
}

}  // namespace

void draw_simulator(viz::Ui& ui, PageFields& fields, const Simulator& simulator,
                    const PageView& view) {
  viz::counters(ui, "counters", view.counters);
  draw_toolbar(ui, fields, simulator);
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui, view);
  draw_sizes(ui, fields);
  draw_live_start(ui, fields);
  ui.next_column();
  ui.heading("Block tables");
  if (view.tables.empty()) {
    ui.hint("No sequence yet. Press New sequence, append some tokens, then fork it.");
  }
  for (const viz::TableView& table : view.tables) {
    viz::block_table(ui, table.sequence.name + "/table", table);
    draw_sequence_buttons(ui, fields, simulator, table.sequence.name);
  }
  ui.end_columns();
}

void draw_live(viz::Ui& ui, const LiveSharing& live, const PageView& view) {
  viz::counters(ui, "counters", view.counters);
  const char* ended = live.finished() ? "the run has ended" : "";
  for (const int count : {1, 4, 16}) {
    ui.button(fmt::format("live/step {}", count),
              count == 1 ? "Step" : fmt::format("Step x{}", count),
              count == 1 ? "step" : fmt::format("step {}", count),
              live.options().beams ? "One more token of every beam."
                                   : "One more token of one sample; the samples take turns.",
              ended);
    ui.same_line();
  }
  ui.button("live/stop", "Stop", "stop", "End the run and go back to the simulator.");
  ui.hint(fmt::format("{} \"{}\". {}.", live.options().beams ? "Beam search from" : "Samples of",
                      live.options().prompt, live.story()));
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui, view);
  ui.next_column();
  ui.heading(live.options().beams ? "Live beams, best first" : "Samples");
  for (size_t i = 0; i < view.tables.size(); ++i) {
    const std::string& name = view.tables[i].sequence.name;
    viz::block_table(ui, name + "/table", view.tables[i]);
    viz::token_row(ui, name + "/tokens", view.tokens[i]);
  }
  if (view.tables.empty()) draw_texts(ui, live);
  ui.end_columns();
}

}  // namespace lesson05
