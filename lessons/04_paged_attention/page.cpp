// The page of lesson 04: one query walks over its keys, tile by tile, through the block table.

#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>

#include "common/error.h"
#include "engine.h"
#include "lessons/01_no_cache/attention_tile.h"
#include "viz/live.h"
#include "viz/ui.h"
#include "viz/widgets.h"
#include "walk.h"

namespace lesson04 {
namespace {

using lesson01::kGroupTiles;
using lesson01::kTileTokens;

constexpr int kMaxTokens = 1024;

/// What a walk is about: changing it walks again.
struct WalkOptions {
  int block_size = 16;
  int layer = 0;
  int head = 0;
};

class WalkPage : public viz::Page {
 public:
  explicit WalkPage(const viz::PageContext& context) : model_(on_cpu(context)) {}

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override {
    return {"tokens", "blocks", "block_size", "layer",   "head",    "steps",
            "step",   "tile",   "group",      "m_milli", "l_milli", "done"};
  }
  std::string next_step() const override { return walk_ && !at_end() ? "next" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  /// The walk runs on the CPU, where every number on its way can be looked at.
  static viz::PageContext on_cpu(viz::PageContext context) {
    context.device = "cpu";
    return context;
  }
  std::string start(const viz::Command& command);
  std::string change(const viz::Command& command);
  std::string move(const viz::Command& command);
  std::string story() const;
  bool at_end() const { return position_ + 1 == static_cast<int>(walk_->steps.size()); }
  const WalkStep& step() const { return walk_->steps[static_cast<size_t>(position_)]; }

  void draw_start(viz::Ui& ui);
  void draw_moves(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_step(viz::Ui& ui);
  void draw_scores(viz::Ui& ui, const WalkStep& tile);
  void draw_summaries(viz::Ui& ui);

  viz::LiveModel model_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> texts_;  // of the tokens
  WalkOptions options_;
  std::optional<ModelWalk> walk_;
  std::vector<float> out_;  // of the first walk with these tokens, layer and head
  int position_ = 0;        // the step that is shown
  // What the fields hold.
  std::string prompt_ = "Once upon a time there was a little dog.";
  int context_ = 200;
  WalkOptions next_;
};

viz::PageInfo WalkPage::info() const {
  return {
      .lesson = "04",
      .title = "The walk",
      .summary = "The last token's query reads K and V through the block table, tile by tile.",
      .commands = {"walk \"PROMPT\" [TOKENS]   continue the prompt to TOKENS tokens, then walk",
                   "head LAYER HEAD          another layer and query head, from the start",
                   "blocks SIZE              another block size, from the start",
                   "next [N]                 N steps on", "back [N]                 N steps back",
                   "close                    back to the choice of a prompt"}};
}

void WalkPage::reset() {
  walk_.reset();
  tokens_.clear();
  texts_.clear();
  out_.clear();
  options_ = {};
  position_ = 0;
}

std::string WalkPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "walk") return start(command);
  if (verb != "head" && verb != "blocks" && verb != "next" && verb != "back" && verb != "close") {
    kv::user_error("{}: no such command; there are walk, head, blocks, next, back, close", verb);
  }
  if (!walk_) kv::user_error("{}: there is no walk; begin one with `walk \"a prompt\"`", verb);
  if (verb == "head" || verb == "blocks") return change(command);
  if (verb == "next" || verb == "back") return move(command);
  command.check_count(0, 0);
  reset();
  return "the walk is closed";
}

std::string WalkPage::start(const viz::Command& command) {
  command.check_count(1, 2);
  const auto context = static_cast<int>(
      command.args.size() < 2 ? 1 : command.number(1, "a number of tokens", 1, kMaxTokens));
  kv::Request request = model_.request(command.word(0, "a prompt"), 0);
  const auto num_prompt = static_cast<int>(request.prompt.size());
  if (num_prompt > kMaxTokens) {
    kv::user_error("walk: a prompt of {} tokens, wanted at most {}", num_prompt, kMaxTokens);
  }
  request.max_tokens = std::max(0, context - num_prompt);
  request.stop_token_ids.clear();  // one story after the other, until there are enough
  const auto result = make_engine(model_.model(), {})->generate({&request, 1});
  std::vector<int32_t> tokens = request.prompt;
  const std::vector<int32_t>& more = result.completions[0].tokens;
  tokens.insert(tokens.end(), more.begin(), more.end());
  const WalkOptions options;
  ModelWalk walk =
      walk_prompt(model_.model(), tokens, options.block_size, options.layer, options.head);
  reset();
  tokens_ = std::move(tokens);
  for (const int32_t token : tokens_) {
    texts_.push_back(viz::token_text(model_.tokenizer(), token));
  }
  out_ = walk.steps.back().out;
  walk_ = std::move(walk);
  return fmt::format("{} tokens in {} blocks; {}", tokens_.size(), walk_->block_table.size(),
                     story());
}

std::string WalkPage::change(const viz::Command& command) {
  WalkOptions options = options_;
  const bool blocks = command.verb == "blocks";
  command.check_count(blocks ? 1 : 2, blocks ? 1 : 2);
  const kv::ModelConfig& config = model_.model().config();
  if (blocks) {
    options.block_size = static_cast<int>(command.number(0, "a block size", 1, 256));
    if (!std::has_single_bit(static_cast<unsigned>(options.block_size))) {
      kv::user_error("block size {}: wanted a power of two from 1 to 256", options.block_size);
    }
  } else {
    options.layer = static_cast<int>(command.number(0, "a layer", 0, config.num_layers - 1));
    options.head = static_cast<int>(command.number(1, "a query head", 0, config.num_heads - 1));
  }
  walk_ = walk_prompt(model_.model(), tokens_, options.block_size, options.layer, options.head);
  options_ = options;
  position_ = 0;
  if (!blocks) out_ = walk_->steps.back().out;
  const std::string where =
      blocks ? fmt::format("blocks of {}: {} of them, elsewhere in the pool, and the same bits",
                           options.block_size, walk_->block_table.size())
             : fmt::format("layer {}, query head {}", options.layer, options.head);
  return where + "; " + story();
}

std::string WalkPage::move(const viz::Command& command) {
  command.check_count(0, 1);
  const auto most = static_cast<int>(walk_->steps.size());
  const auto count = static_cast<int>(
      command.args.empty() ? 1 : command.number(0, "a number of steps", 1, 1 << 20));
  if (command.verb == "next") {
    if (at_end()) kv::user_error("next: the walk has ended after {} steps", most);
    position_ = std::min(position_ + count, most - 1);
  } else {
    if (position_ == 0) kv::user_error("back: this is the first step");
    position_ = std::max(position_ - count, 0);
  }
  return story();
}

std::string WalkPage::story() const {
  const WalkStep& s = step();
  switch (s.kind) {
    case WalkStep::Kind::kTile:
      return fmt::format("tile {}, from scratch: tokens {} to {} in {} {}", s.tile, s.first_token,
                         s.first_token + s.num_tokens - 1,
                         s.block_ids.size() == 1 ? "block" : "blocks", fmt::join(s.block_ids, " "));
    case WalkStep::Kind::kMergeTile:
      return s.before.acc.empty()
                 ? fmt::format("group {} = tile {}: into nothing, so a copy", s.group, s.tile)
                 : fmt::format("group {} + tile {}: both scaled to the larger m, then added",
                               s.group, s.tile);
    case WalkStep::Kind::kMergeGroup:
      return s.before.acc.empty()
                 ? fmt::format("result = group {}: into nothing, so a copy", s.group)
                 : fmt::format("result + group {}: both scaled to the larger m, then added",
                               s.group);
    case WalkStep::Kind::kDivide:
      return "out = acc / l: the weights now add up to 1";
  }
  return {};
}

std::optional<int64_t> WalkPage::counter(std::string_view name) const {
  const auto milli = [](float value) {
    return static_cast<int64_t>(std::lround(1000.0 * static_cast<double>(value)));
  };
  if (name == "tokens") return static_cast<int64_t>(tokens_.size());
  if (name == "blocks") return walk_ ? static_cast<int64_t>(walk_->block_table.size()) : 0;
  if (name == "block_size") return options_.block_size;
  if (name == "layer") return options_.layer;
  if (name == "head") return options_.head;
  if (name == "steps") return walk_ ? static_cast<int64_t>(walk_->steps.size()) : 0;
  if (name == "step") return position_;
  if (name == "tile") return walk_ ? step().tile : 0;
  if (name == "group") return walk_ ? step().group : 0;
  if (name == "m_milli") return walk_ ? milli(step().after.m) : 0;
  if (name == "l_milli") return walk_ ? milli(step().after.l) : 0;
  if (name == "done") return walk_ && at_end() ? 1 : 0;
  return std::nullopt;
}

void WalkPage::check_invariants() const {
  if (!walk_) return;
  if (walk_->steps.back().out != out_) {
    throw std::logic_error("another block size gives other bits");
  }
  // What a merge takes is what the step before it left.
  for (size_t i = 1; i < walk_->steps.size(); ++i) {
    const WalkStep& s = walk_->steps[i];
    if (s.kind == WalkStep::Kind::kMergeTile && s.taken.acc != walk_->steps[i - 1].after.acc) {
      throw std::logic_error("a group takes something else than its tile");
    }
  }
}

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
  ui.number("walk/tokens", "tokens", &context_, 1, kMaxTokens,
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

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<WalkPage>(context);
}

}  // namespace lesson04
