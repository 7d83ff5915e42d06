#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"
#include "engine.h"
#include "page_walk.h"

namespace lesson04 {

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
      command.args.size() < 2 ? 1 : command.number(1, "a number of tokens", 1, kMaxWalkTokens));
  kv::Request request = model_.request(command.word(0, "a prompt"), 0);
  const auto num_prompt = static_cast<int>(request.prompt.size());
  if (num_prompt > kMaxWalkTokens) {
    kv::user_error("walk: a prompt of {} tokens, wanted at most {}", num_prompt, kMaxWalkTokens);
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

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<WalkPage>(context);
}

}  // namespace lesson04
