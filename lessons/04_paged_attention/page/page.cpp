#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "common/error.h"
#include "common/table.h"
#include "engine.h"
#include "walk.h"

namespace lesson04 {
namespace {

constexpr int kMostTokens = 1024, kTokens = 200;
constexpr const char* kPrompt = "Once upon a time there was a little dog.";

/// The walk runs on the CPU, where every number can be read.
viz::PageContext on_cpu(viz::PageContext context) {
  context.device = "cpu";
  return context;
}

/// A word as a narrow cell shows it: "im_end" for "<|im_end|>".
std::string shown_word(const std::string& text) {
  if (text.starts_with("<|") && text.ends_with("|>")) return text.substr(2, text.size() - 4);
  return text;
}

}  // namespace

WalkPage::WalkPage(viz::PageContext context)
    : Page(
          {.lesson = "04",
           .title = "The walk",
           .summary = "The last token's query reads K and V through the block table, tile by tile.",
           .opening = {fmt::format("walk \"{}\" {}", kPrompt, kTokens), "head 2 1", "next"},
           .tall = 880}),
      model_(on_cpu(std::move(context))) {
  declare(
      {{"walk",
        {viz::text("PROMPT").field("prompt", kPrompt).follows([this] { return prompt_; }),
         viz::number("TOKENS", 1, kMostTokens)
             .or_else("1")
             .field("tokens", std::to_string(kTokens))
             .follows([this] { return walk_ ? static_cast<int64_t>(tokens_.size()) : kTokens; })},
        "continue the prompt to TOKENS tokens and follow the query of the last one",
        [this](auto& w) { return start(w[0].text, w[1].number); }}});
  const auto closed = [this] {
    return walk_ ? "" : "there is no walk; begin one with `walk \"a prompt\"`";
  };
  declare(viz::unless(closed, moves_and_changes()));
  reset();
}

std::vector<viz::Verb> WalkPage::moves_and_changes() {
  const viz::Argument count = viz::number("COUNT", 1, 1 << 20).or_else("1");
  const auto have_size = [this](auto& w) { return w[0].number == options_.block_size; };
  return {{"next",
           {count},
           "go on by COUNT",
           [this](auto& w) { return move(w[0].number); },
           [this](auto&) { return at_end() ? "this is the last step" : ""; },
           true},
          {"back",
           {count},
           "go back by COUNT",
           [this](auto& w) { return move(-w[0].number); },
           [this](auto&) { return position_ == 0 ? "this is the first step" : ""; }},
          {"head",
           {viz::number("LAYER", 0, 1000).follows([this] { return options_.layer; }),
            viz::number("HEAD", 0, 1000).follows([this] { return options_.head; })},
           "the same step in layer LAYER and query head HEAD",
           [this](auto& w) {
             walk({options_.block_size, w[0].number, w[1].number});
             sizes_ = {options_.block_size};
             return fmt::format("Query head {} of layer {} does the same, with other scores.",
                                w[1].text, w[0].text);
           },
           [this](auto& w) { return why_not_look(w[0].number, w[1].number); }},
          viz::Verb{"blocks",
                    {viz::power_of_two("SIZE", 256)},
                    "the same K and V in blocks of SIZE: other places, the same bits",
                    [this](auto& w) { return resize_blocks(w[0].number); },
                    [=](auto& w) { return have_size(w) ? "they have this size" : ""; }}
              .holding_if(have_size)};
}

void WalkPage::reset() {
  walk_.reset();
  prompt_ = kPrompt;
  tokens_.clear();
  texts_.clear();
  sizes_.clear();
  options_ = {};
  position_ = 0;
}

std::string WalkPage::start(const std::string& prompt, int num_tokens) {
  kv::Request request = model_.request(prompt, 0);
  std::vector<int32_t> tokens = request.prompt;
  const auto num_prompt = static_cast<int>(tokens.size());
  if (num_prompt > kMostTokens) {
    kv::user_error("walk: a prompt of {} tokens, wanted at most {}", num_prompt, kMostTokens);
  }
  request.max_tokens = std::max(0, num_tokens - num_prompt);
  request.stop_token_ids.clear();  // one story after the other, until there are enough
  const auto result = make_engine(model_.model(), {})->generate({&request, 1});
  std::ranges::copy(result.completions[0].tokens, std::back_inserter(tokens));
  tokens_ = std::move(tokens);
  prompt_ = prompt;
  texts_.clear();
  for (const int32_t token : tokens_) texts_.push_back(shown_word(model_.word(token)));
  position_ = 0;
  walk({});
  sizes_ = {options_.block_size};
  return fmt::format("The query of token {} is to read {}, 64 tokens at a time.",
                     tokens_.size() - 1, kv::count_of(std::ssize(walk_->block_table), "block"));
}

void WalkPage::walk(const WalkOptions& options) {
  walk_ = walk_prompt(model_.model(), tokens_, options.block_size, options.layer, options.head);
  options_ = options;
  moved_on_ = false;
}

/// Every number on the way is compared, not only the last ones.
std::string WalkPage::resize_blocks(int block_size) {
  const ModelWalk before = *walk_;
  walk({block_size, options_.layer, options_.head});
  if (!same_bits(before, *walk_)) throw std::logic_error("another block size gives other bits");
  std::erase(sizes_, block_size);
  sizes_.push_back(block_size);
  return fmt::format("K and V are now in {} of {}, and no number of the walk has changed a bit.",
                     kv::count_of(std::ssize(walk_->block_table), "block"), block_size);
}

std::string WalkPage::why_not_look(int layer, int head) {
  const kv::ModelConfig& config = model_.model().config();
  if (layer >= config.num_layers || head >= config.num_heads) {
    return fmt::format("the model has {} and {}", kv::count_of(config.num_layers, "layer"),
                       kv::count_of(config.num_heads, "query head"));
  }
  return layer == options_.layer && head == options_.head ? "you are looking at it" : "";
}

std::string WalkPage::move(int steps) {
  position_ = std::clamp(position_ + steps, 0, static_cast<int>(walk_->steps.size()) - 1);
  moved_on_ = steps == 1;
  return story();
}

std::string WalkPage::story() const {
  const WalkStep& s = step();
  const bool is_first = s.before.acc.empty();
  switch (s.kind) {
    case WalkStep::Kind::kTile: {
      std::string m = "No score is far above m, so the tile is just added.";
      if (is_first) m = "The first tile of a group sets m: its largest score.";
      if (s.m_moves()) {
        m = fmt::format(
            "A score is so far above m that m moves there: the group shrinks to {:.2f} %.",
            static_cast<double>(100 * std::exp(s.before.m - s.after.m)));
      }
      return fmt::format("The query reads tokens {} to {} from {} {}. {}", s.first_token,
                         s.first_token + s.num_tokens - 1,
                         s.block_ids.size() == 1 ? "block" : "blocks", fmt::join(s.block_ids, ", "),
                         m);
    }
    case WalkStep::Kind::kGroup:
      return fmt::format("Group {} is complete and joins the result. {}", s.group,
                         is_first ? "It is the first, so its numbers stay as they are."
                                  : "The side with the smaller m shrinks first.");
    case WalkStep::Kind::kDivide:
      return "All tokens have been read. acc / l is the answer: its weights add up to 1.";
  }
  return {};
}

std::vector<viz::Counter> WalkPage::counters() const {
  return {{"tokens", std::ssize(tokens_), "tokens", "Their K and V are read."},
          {"blocks", walk_ ? std::ssize(walk_->block_table) : 0, "blocks", "They hold K and V."},
          {"block_size", options_.block_size},
          {"same_bits", std::ssize(sizes_)},
          {"layer", options_.layer, "layer", "The layer whose K and V are read."},
          {"head", options_.head, "query head", "The head whose query reads them."},
          {"steps", walk_ ? std::ssize(walk_->steps) : 0},
          {"step", position_},
          {"tile", walk_ ? step().tile : 0},
          {"group", walk_ ? step().group : 0},
          {"m_moves", walk_ && step().m_moves()},
          {"done", walk_ && at_end()}};
}

void WalkPage::check_invariants() const {
  if (!walk_) return;
  // A step takes what the step before it has left.
  for (size_t i = 1; i < walk_->steps.size(); ++i) {
    const WalkStep& s = walk_->steps[i];
    const Summary& part = s.kind == WalkStep::Kind::kGroup ? s.taken : s.before;
    if (!part.acc.empty() && part != walk_->steps[i - 1].after) {
      throw std::logic_error("a step takes something else than the step before it has left");
    }
  }
}

/// Steps of the walk; at its end the same in blocks of another size.
std::vector<viz::Button> WalkPage::actions() const {
  if (!walk_) return {};
  const int size = options_.block_size == 16 ? 4 : 16;
  return {{"next", "Next", "next", "", 'N', !at_end()},
          {"walk back", "Back", "back", "", 'B'},
          {"end", "To the end", fmt::format("next {}", walk_->steps.size()), "The last step.", 'E'},
          {"other size", fmt::format("Blocks of {}", size), fmt::format("blocks {}", size), "", 'O',
           at_end()}};
}

void WalkPage::draw(viz::Ui& ui) {
  form(ui, {"walk/start", "Walk", "walk"});
  if (!walk_) return;
  form(ui, {"head/set", "Look there", "head"});
  choice(ui, "Blocks of", viz::one_of("blocks", {1, 4, 16, 64}));
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<WalkPage>(context);
}

}  // namespace lesson04
