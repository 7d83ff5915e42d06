#include <fmt/format.h>

#include <algorithm>

#include "page_sharing.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson05 {

void SharingPage::draw(viz::Ui& ui) { live_.running() ? draw_live(ui) : draw_simulator(ui); }

viz::Button SharingPage::append_button(const std::string& who, const std::string& count,
                                       const std::string& id) const {
  return {who + "/append " + id, "+" + count, "append " + who + " " + count};
}

std::vector<viz::Button> SharingPage::append_buttons(const std::string& who) const {
  std::vector<viz::Button> row;
  for (const char* count : {"1", "10", "16", "64"}) row.push_back(append_button(who, count, count));
  row.push_back(append_button(who, custom_, "custom"));
  return row;
}

void SharingPage::draw_simulator(viz::Ui& ui) {
  buttons(ui, {{"new", "New sequence", "new " + simulator_->all().free_name()}});
  ui.same_line();
  ui.label("   all:");
  ui.same_line();
  buttons(ui, append_buttons("all"));
  ui.same_line();
  custom_ = field(ui, "append", "TOKENS");
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui);
  form(ui, {"resize", "New pool", "resize"});
  ui.heading("Watch the engine");
  const std::string prompt = field(ui, "live", "PROMPT"), n = field(ui, "live", "N");
  ui.same_line();
  buttons(ui, {{"live/samples", "Draw samples",
                viz::Command{.verb = "live", .args = {n, prompt}}.text()},
               {"live/beams", "Beam search",
                viz::Command{.verb = "live", .args = {"beams", n, prompt}}.text()}});
  ui.next_column();
  ui.heading("Block tables");
  if (tables_.empty()) {
    ui.hint("No sequence yet. Press New sequence, append some tokens, then fork it.");
  }
  for (const viz::TableView& table : tables_) {
    viz::block_table(ui, table.sequence.name + "/table", table);
    draw_sequence_buttons(ui, table.sequence.name);
  }
  ui.end_columns();
}

void SharingPage::draw_sequence_buttons(viz::Ui& ui, const std::string& name) const {
  std::vector<viz::Button> row = append_buttons(name);
  for (const size_t count : {size_t{1}, size_t{3}}) {
    row.push_back(
        {fmt::format("{}/fork {}", name, count), count == 1 ? "fork" : "fork x3",
         fmt::format("fork {} {}", name, fmt::join(simulator_->all().free_names(count), " "))});
  }
  row.push_back({name + "/free", "free", "free " + name});
  buttons(ui, row);
}

void SharingPage::draw_pool(viz::Ui& ui) const {
  ui.heading(fmt::format("Pool: {} of {}", kv::count_of(std::ssize(pool_.blocks), "block"),
                         kv::count_of(pool_.block_size, "token")));
  viz::pool_grid(ui, "pool", pool_);
}

void SharingPage::draw_live(viz::Ui& ui) {
  const bool beams = live_.options().beams;
  const std::string what =
      beams ? "One more token of every beam." : "Tokens of one sample each; they take turns.";
  buttons(ui, {{"live/step 1", "Step", "step", what},
               {"live/step 4", "Step x4", "step 4", what},
               {"live/step 16", "Step x16", "step 16", what},
               {"live/stop", "Stop", "stop"}});
  ui.hint(fmt::format("{} \"{}\". {}.", beams ? "Beam search from" : "Samples of",
                      live_.options().prompt, live_.told()));
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui);
  ui.next_column();
  ui.heading(beams ? "Live beams, best first" : "Samples");
  const std::vector<LiveSharing::Sequence> sequences = live_.sequences();
  for (size_t i = 0; i < sequences.size(); ++i) {
    viz::block_table(ui, sequences[i].name + "/table", tables_[i]);
    viz::token_row(ui, sequences[i].name + "/tokens", last_tokens(sequences[i]));
  }
  if (sequences.empty()) {  // what was told, when the blocks are gone
    const std::vector<std::string> texts = live_.texts();
    for (size_t i = 0; i < texts.size(); ++i) {
      ui.hint(fmt::format("{}: {}", viz::letters(static_cast<int>(i)), texts[i]));
    }
  }
  ui.end_columns();
}

/// The tokens of the last two blocks, and the one that has no slot yet. What is shared is pale.
std::vector<viz::TokenView> SharingPage::last_tokens(const LiveSharing::Sequence& sequence) {
  const BlockTable& table = live_.manager().table(sequence.number);
  const int size = table.block_size();
  std::vector<viz::TokenView> row;
  const int first = std::max(0, (table.num_blocks() - 2) * size);
  for (int token = first; token < std::ssize(sequence.tokens); ++token) {
    viz::TokenView& shown = row.emplace_back();
    shown.text = live_.text(sequence.tokens[static_cast<size_t>(token)]);
    shown.hue = sequence.hue;
    if (token < table.num_tokens()) {
      const int64_t slot = table.slot(token);
      const int refs = live_.manager().pool().ref_cnt(static_cast<int32_t>(slot / size));
      shown.strength = refs > 1 ? 0.35f : 1.0f;
      shown.tooltip =
          fmt::format("token {}: block {}, offset {}, slot {}; {}", token, slot / size, slot % size,
                      slot, refs > 1 ? fmt::format("shared by {}", refs) : "its own");
    } else {
      shown.strength = 0;
      shown.tooltip = fmt::format("token {}: drawn, not run yet: it has no slot", token);
    }
  }
  return row;
}

}  // namespace lesson05
