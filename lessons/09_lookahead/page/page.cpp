#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lookahead.h"
#include "viz/ui.h"

namespace lesson09 {

constexpr int kMostWords = 48;  // of a prompt, and of an answer
constexpr char kPrompt[] = "the red cat sat on the mat and the red";
// Of the model: one that says what came after "the red" before, and one that does so at first.
constexpr char kSame[] = "cat sat on the mat and the red dog slept well";
constexpr char kOther[] = "cat sat on the hat and slept";

LookaheadPage::LookaheadPage(const viz::PageContext& context)
    : PoolPage({.lesson = "09",
                .title = "Lookahead",
                .summary = "What came before may come again: guesses run in the same pass, and "
                           "the tokens that are drawn say which were right.",
                .opening = {fmt::format("new A \"{}\" \"{}\"", kPrompt, kSame), "guess", "pass"},
                .tall = 700},
               context) {
  declare_own(requests());
  declare_own(
      {fresh(
           "guesses", {viz::number("MOST", 0, 8)},
           "start over, with at most MOST guesses of a request in a pass; 0: none, as in lesson 08",
           &PageSettings::num_guesses),
       fresh("pool", {viz::number("BLOCKS", 1, 64), viz::power_of_two("SIZE", 16)},
             "start over with BLOCKS x SIZE tokens in the pool", &PageSettings::num_blocks,
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
            viz::text("ANSWER").field("the model will say", kOther)},
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
             return shown_.composed ? "the guesses are laid: run the pass" : idle(w);
           }},
          {"pass",
           {},
           "run the pass: each row gives a token, and they say which guesses were right",
           [this](auto&) { return pass(); },
           idle},
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
  shown_ = {};
  num_accepted_ = 0;
  return fmt::format("A pool of {} blocks, and up to {} at a time.", settings_.num_blocks,
                     kv::count_of(settings_.num_guesses, "guess"));
}

std::string LookaheadPage::why_not_add(const std::string& name, int num_prompt,
                                       int num_answer) const {
  if (num_prompt == 0 || num_answer == 0) return "there are no words";
  if (std::max(num_prompt, num_answer) > kMostWords) {
    return fmt::format("prompt and answer have at most {} words each", kMostWords);
  }
  const std::string why =
      viz::too_large(num_prompt, num_answer, settings_.block_size, settings_.num_blocks);
  return why.empty() ? shown_.asked.why_not_add(name) : why;
}

std::string LookaheadPage::add(const std::string& name, const std::string& prompt,
                               const std::string& answer) {
  Asked& asked = shown_.asked.add(name, {});
  asked.id = std::ssize(shown_.asked) - 1;
  asked.num_prompt = viz::words_in(prompt);
  asked.max_tokens = viz::words_in(answer);
  asked.text = vocabulary_.tokens(prompt + " " + answer);
  // A request that finds another's blocks would share them: that is lesson 06's page.
  for (Serving* serving : {serving_.get(), without_.get()}) {
    serving->scheduler.submit(asked.id, asked.known(), asked.max_tokens,
                              {.skip_reading_prefix_cache = true});
  }
  return fmt::format("{} comes with {}, and waits.", name, kv::count_of(asked.num_prompt, "token"));
}

std::string LookaheadPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  begin();
  Asked& asked = shown_.asked.add("A", {});
  asked.id = 0;
  asked.text = live_.requests()[0].prompt;
  asked.num_prompt = static_cast<int>(asked.text.size());
  asked.max_tokens = max_tokens;
  without_->scheduler.submit(0, asked.text, max_tokens, {.skip_reading_prefix_cache = true});
  compose(*live_.pass());
  return fmt::format("The engine begins with \"{}\".", prompt);
}

void LookaheadPage::check_invariants() const {
  manager().check();
  scheduler().check();
  without_->scheduler.check();
  if (num_accepted_ == scheduler().num_accepted()) return;
  throw std::logic_error(fmt::format("{} guesses are right, and the scheduler counts {}",
                                     num_accepted_, scheduler().num_accepted()));
}

std::vector<viz::Counter> LookaheadPage::counters() const {
  int drawn = 0, laid = 0;
  for (const Asked& asked : shown_.asked) drawn += asked.generated;
  if (shown_.composed) {
    for (const Part& part : shown_.passes.back()) laid += part.num_guesses();
  }
  const int64_t num_passes = shown_.num_run();
  std::vector<viz::Counter> all{
      {"passes", num_passes, "passes", "Forward passes so far."},
      {"without", shown_.num_without, "without guesses",
       "Passes that it takes to draw as many tokens without guesses."},
      {"tokens", drawn, "tokens a pass", "Tokens drawn so far, over the passes that drew them.",
       num_passes == 0
           ? "-"
           : fmt::format("{:.2f}", static_cast<double>(drawn) / static_cast<double>(num_passes))},
      {"accepted", num_accepted_, "right", "Guesses that were right, of those so far.",
       fmt::format("{} / {}", num_accepted_, scheduler().num_proposed())},
      viz::free_counter(pool()),
      {"proposed", scheduler().num_proposed()},
      {"preemptions", scheduler().num_preemptions()},
      {"laid", laid},
      {"ended", std::ranges::count(shown_.asked, true, &Asked::ended)},
  };
  for (const Asked& asked : shown_.asked) {
    all.push_back({asked.name + ".tokens", asked.num_known()});
    all.push_back({asked.name + ".slots", asked.num_slots});
    all.push_back({asked.name + ".blocks", std::ssize(asked.ids)});
    all.push_back({asked.name + ".ended", asked.ended});
  }
  return all;
}

/// Guess and pass take turns, and then another request comes, as long as there is room for it.
std::vector<viz::Button> LookaheadPage::actions() const {
  if (live_.running()) return live_.steps();
  const bool idle = serving_->scheduler.idle();
  const bool full = !shown_.asked.why_not_add(shown_.asked.free_name()).empty();
  const auto add = [&](const char* name, const char* label, const char* answer, char key,
                       bool asked) {
    const viz::Command command{.verb = "new", .args = {shown_.asked.free_name(), kPrompt, answer}};
    return viz::Button{name, label, command.text(), "", key, asked};
  };
  return {{"guess", "Guess", "guess", "", 'G', !idle && !shown_.composed},
          {"pass", "Pass", "pass", "", 'P', shown_.composed},
          {"step 10", "x10", "step 10", "", 'X'},
          add("new same", "New: same", kSame, 'N', false),
          full ? viz::Button{"over", "Start over", "guesses 4", "", 'O', idle}
               : add("new other", "New: other", kOther, 'O', idle)};
}

void LookaheadPage::draw(viz::Ui& ui) {
  form(ui, {"new", "New request", "new " + shown_.asked.free_name()});
  choice(ui, "Guesses at most", viz::one_of("guesses", {0, 2, 4, 8}));
  choice(ui, "Blocks in the pool",
         viz::one_of("pool", {8, 12, 24}, fmt::format(" {}", settings_.block_size)));
  form(ui, {"live", "Live run", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<LookaheadPage>(context);
}

}  // namespace lesson09
