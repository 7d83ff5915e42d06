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
  form(ui, {"walk/start", "Walk", "walk"});
  if (!walk_) {
    ui.hint(
        "The model continues the prompt; then the last token's query is followed step by step.");
    return;
  }
  ui.same_line();
  buttons(ui, {{"walk/close", "Close", "close"}});
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

void WalkPage::draw_moves(viz::Ui& ui) {
  const kv::ModelConfig& config = model_.model().config();
  buttons(ui,
          {{"back", "Back", "back"},
           {"next", "Next", "next"},
           {"next tile", "Next tile", "next 2", "Two steps: a tile and its merge."},
           {"end", "To the end", fmt::format("next {}", walk_->steps.size()), "The last step."}});
  ui.same_line();
  ui.number("layer", "layer", &next_.layer, 0, config.num_layers - 1, "Of the model.");
  ui.same_line();
  ui.number("head", "head", &next_.head, 0, config.num_heads - 1, "A query head.");
  ui.same_line();
  buttons(ui, {{"head/set", "Look there", fmt::format("head {} {}", next_.layer, next_.head)}});
  std::vector<viz::Button> sizes;
  for (const int size : {1, 4, 16, 64}) {
    sizes.push_back({fmt::format("blocks {}", size), fmt::format("blocks of {}", size),
                     fmt::format("blocks {}", size)});
  }
  buttons(ui, sizes);
}

void WalkPage::draw_pool(viz::Ui& ui) {
  const std::vector<int32_t>& ids = walk_->block_table;
  const int size = options_.block_size;
  viz::PoolView view =
      viz::pool_view(size, 0, static_cast<int>(ids.size()), [](int32_t) { return 1; });
  viz::TableView table = view.add({"the sequence", 0}, ids, static_cast<int>(tokens_.size()));
  for (size_t t = 0; t < texts_.size(); ++t) {
    view.at(ids[t / static_cast<size_t>(size)]).tokens.push_back(texts_[t]);
  }
  const bool tile = step().kind == WalkStep::Kind::kTile;
  if (tile) {
    table.highlight_token = step().first_token;
    for (const int32_t id : step().block_ids) {
      view.at(id).changed = true;
      view.at(id).owners = {1};
    }
  }
  ui.heading(fmt::format("Pool: {} of {}{}", kv::count_of(std::ssize(ids), "block"),
                         kv::count_of(size, "token"),
                         tile ? ", those of this tile in orange" : ""));
  viz::pool_grid(ui, "pool", view);
  ui.heading("Block table");
  table.sequence.name.clear();
  viz::block_table(ui, "table", table);
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
