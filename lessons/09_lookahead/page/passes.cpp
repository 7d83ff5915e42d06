#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/table.h"
#include "lookahead.h"

namespace lesson09 {
namespace {

constexpr NgramOptions kNgrams;  // the drafter's

/// The number of tokens before `found` that equal those at the end.
int length_of(std::span<const int32_t> tokens, size_t found) {
  const auto before = tokens.first(found);
  const auto most = std::min(std::ssize(before), static_cast<std::ptrdiff_t>(kNgrams.longest));
  const auto [end, _] = std::mismatch(before.rbegin(), before.rbegin() + most, tokens.rbegin());
  return static_cast<int>(end - before.rbegin());
}

}  // namespace

const KvCacheManager& LookaheadPage::manager() const {
  return live_.running() ? live_.server().manager() : serving_->manager;
}

const BlockPool& LookaheadPage::pool() const {
  return live_.running() ? live_.server().pool() : serving_->pool;
}

const LookaheadScheduler* LookaheadPage::scheduler() const {
  return live_.running() ? live_.scheduler() : &serving_->scheduler;
}

std::string LookaheadPage::word(int32_t token) const {
  return live_.running() ? live_.word(token) : vocabulary_.word(token);
}

/// Tokens in a sentence: words, or the model's text with its own spaces.
std::string LookaheadPage::quoted(std::span<const int32_t> tokens) const {
  if (!live_.running()) return fmt::format("\"{}\"", vocabulary_.text(tokens));
  std::string text;
  for (const int32_t token : tokens) text += text.empty() ? live_.word(token) : live_.text(token);
  return fmt::format("\"{}\"", text);
}

std::string LookaheadPage::step(int count) {
  std::string told;
  for (int i = 0; i < count; ++i) {
    if (live_.running() ? live_.finished() : serving_->scheduler.idle()) break;
    told = live_.running() ? live_step() : composed_ ? pass() : guess();
  }
  return told;
}

std::string LookaheadPage::guess() {
  serving_->drafter.clear();
  const SchedulerOutput& output = serving_->scheduler.schedule();
  compose(serving_->scheduler, output, serving_->drafter);
  return told_of_guesses();
}

/// The engine goes on to its next stop: before a guess, or before a pass.
std::string LookaheadPage::live_step() {
  live_.step();
  if (composed_) judge();
  if (live_.pass() == nullptr) return told_of_pass();
  compose(*live_.scheduler(), *live_.pass(), live_.drafter());
  return told_of_guesses();
}

/// Notes the parts of the pass that was composed.
void LookaheadPage::compose(const LookaheadScheduler& of, const SchedulerOutput& output,
                            const WatchedDrafter& drafter) {
  parts_.clear();
  for (const Chunk& chunk : output.chunks) {
    const Asked& asked = asked_of(chunk.id);
    Part part{.id = chunk.id, .hue = asked.hue, .name = asked.name};
    part.first = of.request(chunk.id).num_computed;
    part.num_rows = chunk.num_tokens;
    const auto guesses = of.guesses(chunk.id);
    part.guesses.assign(guesses.begin(), guesses.end());
    num_proposed_ += std::ssize(guesses);
    if (const auto draft = drafter.drafts().find(chunk.id); draft != drafter.drafts().end()) {
      const std::vector<int32_t>& known = of.request(chunk.id).tokens;
      const size_t found = find_continuation(known, kNgrams);
      part.most = draft->second.most;
      part.proposed = static_cast<int>(draft->second.tokens.size());
      part.found = static_cast<int>(found);
      part.length = found < known.size() ? length_of(known, found) : 0;
    }
    parts_.push_back(std::move(part));
  }
  composed_ = !parts_.empty();
}

/// Runs the pass; each request draws the next tokens of its given answer.
std::string LookaheadPage::pass() {
  if (!composed_) {
    const std::string told = guess();
    if (!composed_) return told;
  }
  std::vector<Chunk> chunks;
  for (const Part& part : parts_) chunks.push_back({part.id, part.num_rows});
  serving_->scheduler.update(chunks);
  for (const Part& part : parts_) serving_->give(asked_of(part.id), 1 + part.num_guesses());
  judge();
  return told_of_pass();
}

/// Notes the tokens that a finished pass has drawn, and how many of them were guessed.
void LookaheadPage::judge() {
  for (Part& part : parts_) {
    Asked& asked = asked_of(part.id);
    const int before = asked.num_drawn;
    if (live_.running()) asked.answer = live_.answer();
    asked.num_drawn =
        live_.running() ? static_cast<int>(asked.answer.size()) : serving_->num_drawn[part.id];
    part.drawn = asked.num_drawn - before;
    const auto drawn = std::span(asked.answer).subspan(static_cast<size_t>(before));
    const auto wrong = std::mismatch(part.guesses.begin(), part.guesses.end(), drawn.begin(),
                                     drawn.begin() + part.drawn);
    part.accepted = static_cast<int>(wrong.first - part.guesses.begin());
    num_accepted_ += part.accepted;
    asked.ended = live_.running() ? live_.finished() : asked.num_drawn == asked.max_answer;
  }
  passes_.push_back(parts_);
  composed_ = false;
  catch_up();
}

/// Runs the same requests without guesses, until each of them has drawn the same number of tokens.
void LookaheadPage::catch_up() {
  LookaheadScheduler& scheduler = without_->scheduler;
  const auto is_behind = [&](const Asked& asked) {
    return without_->num_drawn[asked.id] < asked.num_drawn;
  };
  while (std::ranges::any_of(asked_, is_behind)) {
    const std::vector<Chunk> chunks = scheduler.schedule().chunks;
    if (chunks.empty()) continue;  // all of it was preempted
    scheduler.update(chunks);
    int gain = 0;
    for (const Chunk& chunk : chunks) gain += without_->give(asked_of(chunk.id), 1);
    without_->gains.push_back(gain);
  }
  // The engine may have ended its request before the last token.
  if (live_.finished()) scheduler.finish(0);
}

/// Copies the current state of all requests.
Shown LookaheadPage::look() {
  const LookaheadScheduler* const of = scheduler();
  for (Asked& asked : asked_) {
    const bool holds = of != nullptr && !asked.ended && manager().holds(asked.id);
    asked.waits = !asked.ended && !holds;
    asked.num_computed = asked.num_slots = 0;
    asked.ids.clear();
    if (!holds) continue;
    const lesson03::BlockTable& table = manager().table(asked.id);
    asked.num_computed = of->request(asked.id).num_computed;
    asked.num_slots = table.num_tokens();
    asked.ids.assign(table.block_ids().begin(), table.block_ids().end());
  }
  Shown shown{
      .asked = asked_, .num_passes = static_cast<int>(passes_.size()), .composed = composed_};
  for (const lesson07::KvBlock* block : pool().queue().all()) shown.free.push_back(block->id);
  return shown;
}

std::string LookaheadPage::told_of_guesses() const {
  if (parts_.empty()) return "the pass is empty: all that ran has to wait";
  std::string told;
  for (const Part& part : parts_) {
    told += told.empty() ? "" : "; ";
    if (part.guesses.empty()) {
      told += part.name + ": no guess";
      continue;
    }
    told += fmt::format("{} guesses {}", part.name, quoted(part.guesses));
  }
  return told;
}

std::string LookaheadPage::told_of_pass() const {
  std::string told;
  for (const Part& part : parts_) {
    told += told.empty() ? "" : "; ";
    told += fmt::format("{}: {}", part.name, kv::count_of(part.drawn, "token"));
    if (!part.guesses.empty()) {
      told += fmt::format(", {} of {} right", part.accepted,
                          kv::count_of(std::ssize(part.guesses), "guess"));
    }
  }
  return told;
}

}  // namespace lesson09
