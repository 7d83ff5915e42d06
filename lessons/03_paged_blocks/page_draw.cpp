#include <fmt/format.h>

#include <algorithm>

#include "page_paged.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson03 {

constexpr int kMostChips = 128;

std::vector<SequenceOnPage> PagedPage::shown() {
  std::vector<SequenceOnPage> all;
  for (const viz::SequenceView& sequence : sequences()) {
    SequenceOnPage& one = all.emplace_back(SequenceOnPage{sequence, table_of(sequence.name), {}});
    if (live_.running()) {
      for (const int32_t token : live_.tokens(static_cast<size_t>(one.hue))) {
        one.texts.push_back(live_.text(token));
      }
    } else {
      for (int token = 0; token < one.table->num_tokens(); ++token) {
        one.texts.push_back(pool_->text(one.name, token));
      }
    }
  }
  return all;
}

void PagedPage::draw(viz::Ui& ui) {
  if (live_.running()) {
    viz::Live::draw_steps(ui, *this);
  } else {
    buttons(ui, {{"new", "New sequence", "new " + pool_->all().free_name()}});
    ui.same_line();
    form(ui, {"resize", "New pool", "resize"});
  }
  const std::vector<SequenceOnPage> all = shown();
  seen_ = table_of(hovered_) ? hovered_ : pointed_;
  hovered_.reset();  // until this frame's mouse is known
  draw_translation(ui, all);

  const BlockPool& pool = manager().pool();
  const int size = manager().block_size();
  viz::PoolView view = viz::pool_view(size, 0, pool.num_blocks(),
                                      [&](int32_t id) { return pool.is_used(id) ? 1 : 0; });
  std::vector<viz::TableView> tables;
  for (const SequenceOnPage& sequence : all) {
    const BlockTable& table = *sequence.table;
    tables.push_back(view.add(sequence, table.block_ids(), table.num_tokens()));
    for (int token = 0; token < table.num_tokens(); ++token) {
      viz::BlockView& block = view.at(static_cast<int32_t>(table.slot(token) / size));
      block.tokens.push_back(sequence.texts[static_cast<size_t>(token)]);
      if (seen_ && seen_->name == sequence.name && seen_->token == token) block.changed = true;
    }
  }
  ui.begin_columns({0.45f, 0.55f});
  ui.heading(fmt::format("Pool: {} of {}", kv::count_of(pool.num_blocks(), "block"),
                         kv::count_of(size, "token")));
  viz::pool_grid(ui, "pool", view);
  if (!live_.running()) {
    ui.heading("Watch the engine");
    form(ui, {"live/start", "Generate two at once", "live"});
  }
  ui.next_column();
  ui.heading("Block tables and tokens");
  if (all.empty()) {
    ui.hint(live_.running() ? "The run has ended: every block is free again."
                            : "No sequence yet. Press New sequence, then append some tokens.");
  }
  for (size_t i = 0; i < all.size(); ++i) draw_sequence(ui, all[i], tables[i]);
  ui.end_columns();
}

void PagedPage::draw_translation(viz::Ui& ui, const std::vector<SequenceOnPage>& all) {
  ui.heading("From a token to its slot");
  if (!seen_) {
    ui.hint("Point at a token, or click it to keep it.");
    return;
  }
  const SequenceOnPage& sequence = *std::ranges::find(all, seen_->name, &SequenceOnPage::name);
  const BlockTable& table = *sequence.table;
  const int token = seen_->token, size = table.block_size();
  const auto slot = static_cast<int>(table.slot(token));
  const int block = slot / size, offset = slot % size;
  ui.label(fmt::format("token {} of {}:", token, seen_->name));
  ui.same_line();
  ui.label(
      fmt::format("  block = table[{} / {}] = table[{}] = {}", token, size, token / size, block));
  ui.same_line();
  ui.label(fmt::format("  offset = {} % {} = {}", token, size, offset));
  ui.same_line();
  ui.label(fmt::format("  slot = {} x {} + {} = {}", block, size, offset, slot));
  viz::SlotsView view{.block_id = block, .hue = sequence.hue, .marked = offset};
  const int first = token / size * size;
  view.filled = std::min(table.num_tokens() - first, size);
  for (int i = 0; i < size; ++i) {
    view.tokens.push_back(i < view.filled ? sequence.texts[static_cast<size_t>(first + i)] : "");
  }
  viz::slots(ui, "slots", view);
}

void PagedPage::draw_sequence(viz::Ui& ui, const SequenceOnPage& sequence,
                              const viz::TableView& view) {
  const BlockTable& table = *sequence.table;
  const std::string& name = sequence.name;
  const int tokens = table.num_tokens();
  viz::TableView marked = view;
  if (seen_ && seen_->name == name) marked.highlight_token = seen_->token;
  viz::block_table(ui, name + "/table", marked);
  if (!live_.running()) {
    std::vector<viz::Button> row;
    for (const int count : {1, 10, 16, 64}) {
      row.push_back({fmt::format("{}/append {}", name, count), fmt::format("+{}", count),
                     fmt::format("append {} {}", name, count)});
    }
    row.push_back(
        {name + "/point", "last token", fmt::format("point {} {}", name, std::max(tokens - 1, 0))});
    row.push_back({name + "/free", "free", "free " + name});
    buttons(ui, row);
  }
  const auto known = static_cast<int>(sequence.texts.size());
  const int first = std::max(0, known - kMostChips) / table.block_size() * table.block_size();
  if (first > 0) ui.hint(fmt::format("tokens {} to {}:", first, known - 1));
  std::vector<viz::TokenView> chips;
  for (int token = first; token < known; ++token) {
    const bool has_slot = token < tokens;
    chips.push_back({.text = sequence.texts[static_cast<size_t>(token)],
                     .hue = sequence.hue,
                     .strength = !has_slot                             ? 0.0f
                                 : token == marked.highlight_token     ? 1.0f
                                 : token / table.block_size() % 2 == 0 ? 0.65f
                                                                       : 0.3f,
                     .tooltip = has_slot
                                    ? fmt::format("token {}: slot {}", token, table.slot(token))
                                    : fmt::format("token {}: drawn, no slot yet", token)});
  }
  const std::optional<int> over = viz::token_row(ui, name + "/tokens", chips);
  if (!over || first + *over >= tokens) return;
  hovered_ = {name, first + *over};
  if (ui.mouse_clicked()) ui.run(fmt::format("point {} {}", name, first + *over));
}

}  // namespace lesson03
