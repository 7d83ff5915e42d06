#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "page_paged.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson03 {

constexpr int kMostChips = 128;

std::vector<Shown> PagedPage::shown() {
  std::vector<Shown> all;
  for (const std::string& name : names()) {
    Shown sequence{.name = name, .hue = 0, .table = table_of(name), .texts = {}};
    if (!live_) {
      sequence.hue = pool_->find(name).hue;
      for (int token = 0; token < sequence.table->num_tokens(); ++token) {
        sequence.texts.push_back(pool_->text(name, token));
      }
    } else {
      sequence.hue = name[1] - '0';
      for (const int32_t token : live_->tokens(static_cast<size_t>(sequence.hue))) {
        sequence.texts.push_back(viz::token_text(model_.tokenizer(), token));
      }
    }
    all.push_back(std::move(sequence));
  }
  return all;
}

std::optional<Pointed> PagedPage::current() const {
  for (const auto& candidate : {hovered_, pointed_}) {
    if (!candidate) continue;
    const BlockTable* table = table_of(candidate->name);
    if (table != nullptr && candidate->token < table->num_tokens()) return candidate;
  }
  return std::nullopt;
}

void PagedPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  const int64_t slots = *counter("tokens") + *counter("empty_slots");
  const double waste =
      slots > 0 ? static_cast<double>(*counter("empty_slots")) / static_cast<double>(slots) : 0;
  viz::counters(
      ui, "counters",
      {{"free", count("free") + " / " + count("total"), "Blocks that no table holds."},
       {"used", count("used"), "Blocks in a table: each in exactly one."},
       {"sequences", count("sequences"), "Block tables that exist."},
       {"tokens", count("tokens"), "Tokens that have a slot."},
       {"empty slots", count("empty_slots"), "Slots in used blocks that hold no token: tails."},
       {"wasted", fmt::format("{:.1f} %", 100 * waste), "Empty slots as a share of used blocks."}});
  if (live_) {
    viz::draw_live_steps(ui, live_->finished());
  } else {
    draw_simulator_controls(ui);
  }
  const std::vector<Shown> all = shown();
  seen_ = current();
  hovered_.reset();  // until this frame's mouse is known
  draw_translation(ui, all);
  ui.begin_columns({0.45f, 0.55f});
  draw_pool(ui, all);
  if (!live_) {
    ui.heading("Watch the engine");
    viz::draw_live_start(ui, live_fields_, "Generate two at once",
                         "Two requests: this prompt, and its first half with half of the tokens.");
  }
  ui.next_column();
  ui.heading("Block tables and tokens");
  if (all.empty()) {
    ui.hint(live_ ? "The run has ended: every block is free again."
                  : "No sequence yet. Press New sequence, then append some tokens.");
  }
  for (const Shown& sequence : all) draw_sequence(ui, sequence);
  ui.end_columns();
}

void PagedPage::draw_simulator_controls(viz::Ui& ui) {
  ui.button("new", "New sequence", "new " + pool_->free_name(),
            "A sequence with an empty table. It takes no block before its first token.",
            pool_->why_not_add());
  ui.same_line();
  ui.number("blocks", "blocks", &new_blocks_, 1, NamedSequences::kMaxBlocks, "Of the next pool.");
  ui.same_line();
  int size = new_size_;
  ui.number("block size", "tokens each", &size, 1, 256, "A power of two.");
  const auto wanted = static_cast<unsigned>(size);  // + and - lead to the next power of two
  new_size_ = static_cast<int>(size > new_size_ ? std::bit_ceil(wanted) : std::bit_floor(wanted));
  ui.same_line();
  ui.button("resize", "New pool", fmt::format("resize {} {}", new_blocks_, new_size_),
            "Drop all sequences and begin with an empty pool of this size.");
}

void PagedPage::draw_translation(viz::Ui& ui, const std::vector<Shown>& all) {
  ui.heading("From a token to its slot");
  const std::optional<Pointed>& pointed = seen_;
  if (!pointed) {
    ui.hint("Point at a token, or click it to keep it.");
    return;
  }
  const Shown& sequence = *std::find_if(all.begin(), all.end(), [&](const Shown& candidate) {
    return candidate.name == pointed->name;
  });
  const BlockTable& table = *sequence.table;
  const int token = pointed->token, size = table.block_size();
  const Place place = table.place(token);
  ui.label(fmt::format("token {} of {}:", token, pointed->name));
  ui.same_line();
  ui.label(fmt::format("  block = table[{} / {}] = table[{}] = {}", token, size, token / size,
                       place.block_id));
  ui.same_line();
  ui.label(fmt::format("  offset = {} % {} = {}", token, size, place.offset));
  ui.same_line();
  ui.label(fmt::format("  slot = {} x {} + {} = {}", place.block_id, size, place.offset,
                       table.slot(token)));
  viz::SlotsView view{.block_id = place.block_id, .hue = sequence.hue, .marked = place.offset};
  const int first = token / size * size;
  view.filled = std::min(table.num_tokens() - first, size);
  for (int i = 0; i < size; ++i) {
    view.tokens.push_back(i < view.filled ? sequence.texts[static_cast<size_t>(first + i)] : "");
  }
  viz::slots(ui, "slots", view);
}

void PagedPage::draw_pool(viz::Ui& ui, const std::vector<Shown>& all) {
  const BlockPool& pool = manager().pool();
  const int size = manager().block_size();
  viz::PoolView view{.block_size = size, .sequences = {}, .blocks = {}};
  for (int32_t id = 0; id < pool.num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = pool.is_used(id) ? 1 : 0;
  }
  for (const Shown& sequence : all) {
    view.sequences.push_back({sequence.name, sequence.hue});
    for (int token = 0; token < sequence.table->num_tokens(); ++token) {
      const Place place = sequence.table->place(token);
      viz::BlockView& block = view.blocks[static_cast<size_t>(place.block_id)];
      if (place.offset == 0) block.owners.push_back(sequence.hue);
      block.filled = place.offset + 1;
      block.tokens.push_back(sequence.texts[static_cast<size_t>(token)]);
    }
  }
  if (seen_) {
    const Place place = table_of(seen_->name)->place(seen_->token);
    view.blocks[static_cast<size_t>(place.block_id)].highlight = true;
  }
  ui.heading(fmt::format("Pool: {} blocks of {} tokens", pool.num_blocks(), size));
  viz::pool_grid(ui, "pool", view);
}

void PagedPage::draw_sequence(viz::Ui& ui, const Shown& sequence) {
  const BlockTable& table = *sequence.table;
  const std::optional<int> marked =
      seen_ && seen_->name == sequence.name ? std::optional(seen_->token) : std::nullopt;
  viz::block_table(ui, sequence.name + "/table",
                   {.sequence = {sequence.name, sequence.hue},
                    .block_ids = {table.block_ids().begin(), table.block_ids().end()},
                    .ref_cnts = {},
                    .num_tokens = table.num_tokens(),
                    .block_size = table.block_size(),
                    .highlight_token = marked});
  if (!live_) draw_buttons(ui, sequence.name);
  const auto known = static_cast<int>(sequence.texts.size());
  const int first = std::max(0, known - kMostChips) / table.block_size() * table.block_size();
  if (first > 0) ui.hint(fmt::format("tokens {} to {}:", first, known - 1));
  std::vector<viz::TokenView> chips;
  for (int token = first; token < known; ++token) {
    const bool has_slot = token < table.num_tokens();
    chips.push_back({.text = sequence.texts[static_cast<size_t>(token)],
                     .hue = sequence.hue,
                     .strength = !has_slot                             ? 0.0f
                                 : token == marked                     ? 1.0f
                                 : token / table.block_size() % 2 == 0 ? 0.65f
                                                                       : 0.3f,
                     .tooltip = has_slot
                                    ? fmt::format("token {}: slot {}", token, table.slot(token))
                                    : fmt::format("token {}: drawn, no slot yet", token)});
  }
  const std::optional<int> over = viz::token_row(ui, sequence.name + "/tokens", chips);
  if (!over || first + *over >= table.num_tokens()) return;
  hovered_ = {sequence.name, first + *over};
  if (ui.mouse_clicked()) ui.run(fmt::format("point {} {}", sequence.name, first + *over));
}

void PagedPage::draw_buttons(viz::Ui& ui, const std::string& name) {
  for (const int count : {1, 10, 16, 64}) {
    ui.button(fmt::format("{}/append {}", name, count), fmt::format("+{}", count),
              fmt::format("append {} {}", name, count),
              fmt::format("{} more tokens: the last block first, then new ones.", count),
              pool_->why_not_append(name, count));
    ui.same_line();
  }
  const int tokens = pool_->table(name).num_tokens();
  ui.button(name + "/point", "last token",
            fmt::format("point {} {}", name, std::max(tokens - 1, 0)),
            "Show where its last token lies.", tokens == 0 ? "it has no token yet" : "");
  ui.same_line();
  ui.button(name + "/free", "free", "free " + name, "Drop it: all its blocks go back to the pool.");
}

}  // namespace lesson03
