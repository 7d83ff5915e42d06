#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lookahead.h"
#include "viz/ui.h"

namespace lesson09 {
namespace {

constexpr int kMostWords = 48;  // of a prompt, and of an answer
constexpr char kPrompt[] = "the red cat sat on the mat and the red";
constexpr char kAnswer[] = "cat sat on the hat and slept";

}  // namespace

LookaheadPage::LookaheadPage(const viz::PageContext& context)
    : PoolPage({.lesson = "09",
                .title = "Lookahead",
                .summary = "What came before may come again: guesses run in the same pass, and "
                           "the tokens that are drawn say which were right."},
               context) {
  declare_own(requests());
  declare_own(
      {anew(
           "guesses", {viz::number("MOST", 0, 8)},
           "start anew, with at most MOST guesses of a request in a pass; 0: none, as in lesson 08",
           &PageSettings::num_guesses),
       anew("pool", {viz::number("BLOCKS", 1, 64), viz::number("SIZE", 1, 16)},
            "start anew with BLOCKS x SIZE tokens in the pool", &PageSettings::num_blocks,
            &PageSettings::block_size)});
  declare_steps({"step",
                 {viz::number("COUNT", 1, 1000).or_else("1")},
                 "guess, or run the pass, whatever is next: COUNT times",
                 [this](auto& w) { return step(w[0].number); },
                 [this](auto&) { return serving_->scheduler.idle() ? "no request runs" : ""; }});
  reset();
}

/// Commands that are refused while the engine runs.
std::vector<viz::Verb> LookaheadPage::requests() {
  const auto idle = [this](auto&) { return serving_->scheduler.idle() ? "no request runs" : ""; };
  return {{"new",
           {viz::word("NAME"), viz::text("PROMPT").field("prompt", kPrompt),
            viz::text("ANSWER").field("the model will say", kAnswer)},
           "request NAME comes with PROMPT; the model's answer, a word a token, will be ANSWER",
           [this](auto& w) { return add(w[0].text, w[1].text, w[2].text); },
           [this](auto& w) {
             return why_not_add(w[0].text, viz::words_in(w[1].text), viz::words_in(w[2].text));
           }},
          {"guess",
           {},
           "compose the next pass: what came after the last words before is laid into slots",
           [this](auto&) { return guess(); },
           [this, idle](auto& w) {
             return composed_ ? "the guesses are laid: run the pass" : idle(w);
           }},
          {"pass",
           {},
           "run the pass: each row gives a token, and they say which guesses were right",
           [this](auto&) { return pass(); },
           idle},
          {"finish",
           {viz::word("NAME")},
           "NAME ends now: its blocks are free",
           [this](auto& w) { return finish(w[0].text); },
           [this](auto& w) { return asked_.at(w[0].text).ended ? "it has ended" : ""; }},
          {"live",
           {viz::text("PROMPT").field("prompt", "quack quack quack quack quack quack"),
            viz::number("TOKENS", 1, 60).or_else("26")},
           "the engine goes on with PROMPT, TOKENS at most, and stands still at each guess",
           [this](auto& w) { return live(w[0].text, w[1].number); }}};
}

std::string LookaheadPage::begin() {
  serving_ = std::make_unique<Serving>(settings_);
  without_ = std::make_unique<Serving>(
      PageSettings{settings_.num_blocks, settings_.block_size, /*num_guesses=*/0});
  asked_.clear();
  composed_ = false;
  parts_.clear();
  passes_.clear();
  num_proposed_ = num_accepted_ = 0;
  return fmt::format("{} of {}, at most {}", kv::count_of(settings_.num_blocks, "block"),
                     settings_.block_size, kv::count_of(settings_.num_guesses, "guess"));
}

std::string LookaheadPage::why_not_add(const std::string& name, int num_prompt,
                                       int num_answer) const {
  if (num_prompt == 0 || num_answer == 0) return "there are no words";
  if (std::max(num_prompt, num_answer) > kMostWords) {
    return fmt::format("prompt and answer have at most {} words each", kMostWords);
  }
  const int needed = lesson03::blocks_for(num_prompt + num_answer - 1, settings_.block_size);
  if (needed > settings_.num_blocks) {
    return fmt::format("it needs {}, the pool has {}", kv::count_of(needed, "block"),
                       settings_.num_blocks);
  }
  return asked_.why_not_add(name);
}

std::string LookaheadPage::add(const std::string& name, const std::string& prompt,
                               const std::string& answer) {
  Asked& asked = asked_.add(name, {});
  asked.id = std::ssize(asked_) - 1;
  asked.prompt = vocabulary_.tokens(prompt);
  asked.answer = vocabulary_.tokens(answer);
  asked.max_answer = static_cast<int>(asked.answer.size());
  // A request that finds another's blocks would share them: that is lesson 06's page.
  for (Serving* serving : {serving_.get(), without_.get()}) {
    serving->scheduler.submit(asked.id, asked.prompt, asked.max_answer,
                              {.skip_reading_prefix_cache = true});
  }
  return fmt::format("{}: a prompt of {}; it waits", name,
                     kv::count_of(std::ssize(asked.prompt), "token"));
}

std::string LookaheadPage::finish(const std::string& name) {
  Asked& asked = asked_.at(name);
  asked.ended = true;
  serving_->scheduler.finish(asked.id);
  without_->scheduler.finish(asked.id);
  if (composed_) std::erase_if(parts_, [&](const Part& part) { return part.id == asked.id; });
  composed_ = composed_ && !parts_.empty();
  return fmt::format("{} is gone, and its blocks are free", name);
}

std::string LookaheadPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  begin();
  Asked& asked = asked_.add("A", {});
  asked.prompt = live_.requests()[0].prompt;
  asked.max_answer = max_tokens;
  without_->scheduler.submit(0, asked.prompt, max_tokens, {.skip_reading_prefix_cache = true});
  compose(*live_.scheduler(), *live_.pass(), live_.drafter());
  return fmt::format("the engine begins with \"{}\"", prompt);
}

void LookaheadPage::check_invariants() const {
  manager().check();
  without_->scheduler.check();
  const LookaheadScheduler* const of = scheduler();
  if (of == nullptr) return;
  of->check();
  if (of->num_proposed() != num_proposed_ || of->num_accepted() != num_accepted_) {
    throw std::logic_error(
        fmt::format("{} of {} guesses are right, and the scheduler counts {} of {}", num_accepted_,
                    num_proposed_, of->num_accepted(), of->num_proposed()));
  }
}

std::vector<viz::Counter> LookaheadPage::counters() const {
  const BlockPool& pool = this->pool();
  const auto num_passes = std::ssize(passes_), without = std::ssize(without_->gains);
  int drawn = 0, rows = 0, proposed = 0;
  int64_t preemptions = 0;
  for (const Asked& asked : asked_) drawn += asked.num_drawn;
  for (const Part& part : parts_) {
    rows += part.num_rows + part.num_guesses();
    proposed += part.num_guesses();
  }
  if (const auto* of = scheduler()) preemptions = of->num_preemptions();
  std::vector<viz::Counter> all{
      {"passes", num_passes, "passes", "Forward passes so far."},
      {"without", without, "without guesses",
       "Passes that it takes to draw as many tokens without guesses."},
      {"tokens", drawn, "tokens a pass", "Tokens drawn so far, over the passes that drew them.",
       num_passes == 0
           ? "-"
           : fmt::format("{:.2f}", static_cast<double>(drawn) / static_cast<double>(num_passes))},
      {"accepted", num_accepted_, "right", "Guesses that were right, of those that ran.",
       fmt::format("{} / {}", num_accepted_, num_proposed_)},
      viz::free_counter(pool),
      {"used", pool.num_used()},
      {"proposed", num_proposed_},
      {"preemptions", preemptions},
      {"rows", rows},
      {"laid", composed_ ? proposed : 0},
      {"ended", std::ranges::count(asked_, true, &Asked::ended)},
  };
  for (const Asked& asked : asked_) {
    all.push_back({asked.name + ".tokens", asked.num_known()});
    all.push_back({asked.name + ".slots", asked.num_slots});
    all.push_back({asked.name + ".blocks", std::ssize(asked.ids)});
    all.push_back({asked.name + ".ended", asked.ended});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<LookaheadPage>(context);
}

}  // namespace lesson09
