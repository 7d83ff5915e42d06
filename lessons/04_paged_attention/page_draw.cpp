#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/contract.h"
#include "page_walk.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson04 {

using kv::attention::kGroupTiles;
using kv::attention::kTileTokens;

void WalkPage::draw(viz::Ui& ui) {
  draw_start(ui);
  if (!walk_) {
    ui.hint(
        "The model continues the prompt; then the last token's query is followed step by step.");
    return;
  }
  draw_moves(ui);
  ui.heading(fmt::format("Step {} of {}: {}", position_ + 1, walk_->steps.size(), story()));
  viz::PiecesView pieces;
  const int num_tokens = static_cast<int>(tokens_.size());
  for (int first = 0; first < num_tokens; first += kTileTokens) {
    const int tile = first / kTileTokens;
    const int last = std::min(first + kTileTokens, num_tokens) - 1;
    pieces.pieces.push_back({.label = fmt::format("tile {}", tile),
                             .tooltip = fmt::format("tile {} of group {}: tokens {} to {}", tile,
                                                    tile / kGroupTiles, first, last),
                             .group = tile / kGroupTiles});
  }
  const bool tile = step().kind == WalkStep::Kind::kTile;
  pieces.current = tile || step().kind == WalkStep::Kind::kMergeTile ? step().tile : -1;
  pieces.done = step().tile + (tile ? 0 : 1);
  viz::pieces(ui, "tiles", pieces);
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui);
  ui.next_column();
  draw_step(ui);
  ui.end_columns();
}

void WalkPage::draw_start(viz::Ui& ui) {
  ui.text("walk/prompt", "prompt", &prompt_, "What the model is to continue.");
  ui.number("walk/tokens", "tokens", &context_, 1, kMaxWalkTokens,
            "How many tokens the query attends to.");
  ui.same_line();
  ui.button("walk/start", "Walk",
            viz::Command{.verb = "walk", .args = {prompt_, std::to_string(context_)}}.text(),
            "Continue the prompt to so many tokens and follow the query of the last one.",
            prompt_.empty() ? "the prompt is empty" : "");
  if (!walk_) return;
  ui.same_line();
  ui.button("walk/close", "Close", "close", "Back to the choice of a prompt.");
}

void WalkPage::draw_moves(viz::Ui& ui) {
  const kv::ModelConfig& config = model_.model().config();
  const char* first = position_ == 0 ? "this is the first step" : "";
  const char* last = at_end() ? "this is the last step" : "";
  ui.button("back", "Back", "back", "The step before.", first);
  ui.same_line();
  ui.button("next", "Next", "next", "The next step. Play and the Right arrow do this, too.", last);
  ui.same_line();
  ui.button("next tile", "Next tile", "next 2", "Two steps: a tile and its merge.", last);
  ui.same_line();
  ui.button("end", "To the end", fmt::format("next {}", walk_->steps.size()), "The last step.",
            last);
  ui.same_line();
  ui.number("layer", "layer", &next_.layer, 0, config.num_layers - 1, "Of the model.");
  ui.same_line();
  ui.number("head", "head", &next_.head, 0, config.num_heads - 1, "A query head.");
  ui.same_line();
  ui.button(
      "head/set", "Look there", fmt::format("head {} {}", next_.layer, next_.head),
      "The same tokens in another layer and head.",
      next_.layer == options_.layer && next_.head == options_.head ? "you are looking at it" : "");
  for (const int size : {1, 4, 16, 64}) {
    if (size > 1) ui.same_line();
    ui.button(fmt::format("blocks {}", size), fmt::format("blocks of {}", size),
              fmt::format("blocks {}", size),
              "The same K and V in blocks of another size: other places, the same bits.",
              size == options_.block_size ? "they have this size" : "");
  }
}

void WalkPage::draw_pool(viz::Ui& ui) {
  const std::vector<int32_t>& table = walk_->block_table;
  const int size = options_.block_size;
  const auto num_tokens = static_cast<int>(tokens_.size());
  viz::PoolView view{.block_size = size, .sequences = {{"the sequence", 0}}, .blocks = {}};
  view.blocks.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    viz::BlockView& block = view.blocks[static_cast<size_t>(table[i])];
    const int first = static_cast<int>(i) * size;
    block.id = table[i];
    block.ref_cnt = 1;
    block.filled = std::min(num_tokens - first, size);
    block.owners = {0};
    for (int t = first; t < first + block.filled; ++t) {
      block.tokens.push_back(texts_[static_cast<size_t>(t)]);
    }
  }
  const bool tile = step().kind == WalkStep::Kind::kTile;
  if (tile) {
    for (const int32_t id : step().block_ids) {
      viz::BlockView& block = view.blocks[static_cast<size_t>(id)];
      block.highlight = true;
      block.owners = {1};
    }
  }
  ui.heading(fmt::format("Pool: {} blocks of {} tokens{}", table.size(), size,
                         tile ? ", those of this tile in orange" : ""));
  viz::pool_grid(ui, "pool", view);
  ui.heading("Block table");
  viz::block_table(ui, "table",
                   {.sequence = {"", 0},
                    .block_ids = table,
                    .ref_cnts = {},
                    .num_tokens = num_tokens,
                    .block_size = size,
                    .highlight_token = tile ? std::optional(step().first_token) : std::nullopt});
}

void WalkPage::draw_step(viz::Ui& ui) {
  // The tile that this step is about, or the last one before it.
  int at = position_;
  while (walk_->steps[static_cast<size_t>(at)].kind != WalkStep::Kind::kTile) --at;
  draw_scores(ui, walk_->steps[static_cast<size_t>(at)]);
  draw_summaries(ui);
}

void WalkPage::draw_scores(viz::Ui& ui, const WalkStep& tile) {
  viz::BarsView scores{.values = tile.scores, .names = {}, .hue = 0, .height = 90};
  for (int i = 0; i < static_cast<int>(tile.scores.size()); ++i) {
    const int token = tile.first_token + i;
    scores.names.push_back(
        fmt::format("token {} \"{}\"", token, texts_[static_cast<size_t>(token)]));
  }
  ui.heading(fmt::format("Scores of tile {}: q . k / sqrt(head_dim); the largest is m = {:.4f}",
                         tile.tile, static_cast<double>(tile.after.m)));
  viz::bars(ui, "scores", scores);
  ui.heading(fmt::format("Weights: exp(score - m); their sum is l = {:.4f}",
                         static_cast<double>(tile.after.l)));
  scores.values = tile.weights;
  scores.hue = 1;
  viz::bars(ui, "weights", scores);
}

void WalkPage::draw_summaries(viz::Ui& ui) {
  const WalkStep& s = step();
  const bool divide = s.kind == WalkStep::Kind::kDivide;
  const bool tile = s.kind == WalkStep::Kind::kTile;
  float largest = 0;
  for (const Summary* summary : {&s.before, &s.taken, &s.after}) {
    for (const float value : summary->acc) largest = std::max(largest, std::abs(value));
  }
  ui.heading(tile     ? "acc: the weighted sum of the tile's V rows"
             : divide ? "acc is divided by l"
                      : "m, l and acc: what was there, what joins, what it gives");
  const auto row = [&](const char* id, const std::string& label, const Summary& summary) {
    if (summary.acc.empty()) return;
    ui.label(fmt::format("{}:   m = {:.4f}   l = {:.4f}", label, static_cast<double>(summary.m),
                         static_cast<double>(summary.l)));
    viz::heat_row(ui, id, {.label = "acc", .values = summary.acc, .largest = largest});
  };
  row("before", "before", s.before);
  row("taken", "joins", s.taken);
  row("after", tile ? "the tile" : "after", s.after);
  if (!divide) return;
  float most = 0;
  for (const float value : s.out) most = std::max(most, std::abs(value));
  ui.label("out, for this head:");
  viz::heat_row(ui, "out", {.label = "out", .values = s.out, .largest = most});
}

}  // namespace lesson04
