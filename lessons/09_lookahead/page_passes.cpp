#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/table.h"
#include "page_lookahead.h"

namespace lesson09 {
namespace {

constexpr NgramOptions kNgrams;  // the drafter's

/// How many tokens before `found` are those at the end.
int length_of(std::span<const int32_t> tokens, size_t found) {
  const auto before = tokens.first(found);
  const auto most = std::min(std::ssize(before), static_cast<std::ptrdiff_t>(kNgrams.longest));
  const auto [end, _] = std::mismatch(before.rbegin(), before.rbegin() + most, tokens.rbegin());
  return static_cast<int>(end - before.rbegin());
}

}  // namespace

const LookaheadManager& LookaheadPage::manager() const {
  return live_.running() ? live_.manager() : serving_->manager;
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

int LookaheadPage::num_drawn() const {
  int drawn = 0;
  for (const auto& parts : passes_) {
    for (const Part& part : parts) drawn += part.drawn;
  }
  return drawn;
}

std::string LookaheadPage::step(int count) {
  std::string told;
  for (int i = 0; i < count; ++i) {
    if (live_.running() ? live_.finished() : serving_->scheduler.idle()) break;
    told = live_.running() ? live_step() : shown_.composed ? pass() : guess();
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
  if (shown_.composed) judge();
  if (live_.pass() == nullptr) return told_of_pass();
  compose(*live_.scheduler(), *live_.pass(), live_.drafter());
  return told_of_guesses();
}

/// What is in the pass that was composed.
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
  shown_.composed = !parts_.empty();
}

/// The pass runs; the model says what each request's answer is.
std::string LookaheadPage::pass() {
  if (!shown_.composed) {
    const std::string told = guess();
    if (!shown_.composed) return told;
  }
  std::vector<Chunk> chunks;
  for (const Part& part : parts_) chunks.push_back({part.id, part.num_rows});
  serving_->scheduler.update(chunks);
  for (const Part& part : parts_) give(*serving_, part);
  judge();
  return told_of_pass();
}

/// A token from each of its rows that has logits, as long as it wants one: as the engine does.
void LookaheadPage::give(Serving& to, const Part& part) {
  const Asked& asked = asked_of(part.id);
  int& drawn =
      &to == serving_.get() ? asked_of(part.id).num_drawn : told_without_.num_drawn[part.id];
  for (size_t rows = 1 + part.guesses.size(); rows > 0; --rows) {
    if (drawn == std::ssize(asked.answer) || !to.scheduler.wants_token(part.id)) return;
    const int32_t token = asked.answer[static_cast<size_t>(drawn++)];
    if (drawn == asked.most_answer) {
      to.scheduler.finish(part.id);  // the last one needs no pass
      return;
    }
    to.scheduler.add_token(part.id, token);
  }
}

/// The pass has run, and all that it drew is known: how much of it was guessed?
void LookaheadPage::judge() {
  for (Part& part : parts_) {
    Asked& asked = asked_of(part.id);
    if (live_.running()) {
      asked.answer = live_.answer();
      asked.num_drawn = static_cast<int>(asked.answer.size());
    }
    int before = 0;
    for (const auto& parts : passes_) {
      for (const Part& old : parts) before += old.id == part.id ? old.drawn : 0;
    }
    const auto drawn = std::span(asked.answer)
                           .first(static_cast<size_t>(asked.num_drawn))
                           .subspan(static_cast<size_t>(before));
    part.drawn = static_cast<int>(drawn.size());
    const auto wrong =
        std::mismatch(part.guesses.begin(), part.guesses.end(), drawn.begin(), drawn.end()).first;
    part.accepted = static_cast<int>(wrong - part.guesses.begin());
    num_accepted_ += part.accepted;
    asked.ended = live_.running() ? live_.finished() : asked.num_drawn == asked.most_answer;
  }
  passes_.push_back(parts_);
  shown_.composed = false;
  catch_up();
}

/// Whether some request has drawn a token that it would not have without guesses.
bool LookaheadPage::is_ahead() const {
  return std::ranges::any_of(shown_.asked, [&](const Asked& asked) {
    const auto without = told_without_.num_drawn.find(asked.id);
    const int drawn = without == told_without_.num_drawn.end() ? 0 : without->second;
    return drawn < asked.num_drawn;
  });
}

/// The same requests without guesses, until they have drawn as much.
void LookaheadPage::catch_up() {
  Scheduler& scheduler = without_->scheduler;
  while (is_ahead()) {
    const std::vector<Chunk> chunks = scheduler.schedule().chunks;
    if (chunks.empty()) continue;  // all of it was preempted
    scheduler.update(chunks);
    int gain = 0;
    for (const Chunk& chunk : chunks) {
      const int before = told_without_.num_drawn[chunk.id];
      give(*without_, {.id = chunk.id});
      gain += told_without_.num_drawn[chunk.id] - before;
    }
    told_without_.gains.push_back(gain);
  }
  if (!live_.finished()) return;
  scheduler.finish(0);  // it may have said its last word before its last token
}

/// Takes over how all requests are now.
void LookaheadPage::look() {
  const LookaheadScheduler* const of = scheduler();
  for (Asked& asked : shown_.asked) {
    asked.num_computed = asked.num_slots = 0;
    asked.ids.clear();
    asked.waits = !asked.ended && of != nullptr && !manager().holds(asked.id);
    if (asked.ended || !manager().holds(asked.id)) continue;
    const lesson03::BlockTable& table = manager().table(asked.id);
    asked.num_computed = of->request(asked.id).num_computed;
    asked.num_slots = table.num_tokens();
    asked.ids.assign(table.block_ids().begin(), table.block_ids().end());
  }
  shown_.free.clear();
  for (const lesson07::KvBlock* block : pool().queue().all()) shown_.free.push_back(block->id);
  shown_.num_passes = static_cast<int>(passes_.size());
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
