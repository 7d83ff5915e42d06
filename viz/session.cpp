#include "viz/session.h"

#include <fmt/format.h>

#include <utility>

#include "common/error.h"

namespace viz {
namespace {

constexpr size_t kMaxLogLines = 500;
constexpr size_t kMaxLogLine = 1000;  // bytes: what somebody typed may be long

std::string place(const Command& command) {
  return command.line > 0 ? fmt::format("line {}: ", command.line) : std::string();
}

}  // namespace

Session::Session(std::unique_ptr<Page> page) : page_(std::move(page)) {}

void Session::run(const Command& command) {
  const auto tell = [&](std::string text, bool error) {
    if (log_.size() == kMaxLogLines) log_.erase(log_.begin());
    if (text.size() > kMaxLogLine) text.replace(kMaxLogLine, std::string::npos, " ..");
    log_.push_back({std::move(text), error});
  };
  try {
    if (command.verb == "say") {
      caption_ = command.word(0, "a caption");
    } else if (command.verb == "expect") {
      expect(command);
    } else if (command.verb == "reset") {
      reset();
    } else if (command.verb == "fails") {
      Command inner{.verb = command.word(0, "a command"),
                    .args = {command.args.begin() + 1, command.args.end()},
                    .line = command.line};
      std::string refusal;
      try {
        page_->apply(inner);
      } catch (const kv::UserError& error) {
        refusal = error.what();
      }
      page_->check_invariants();
      if (refusal.empty()) {
        const size_t count = done_.size();
        replay(count);  // it was done: take it back
        kv::user_error("{}expected that `{}` is refused, but it was done", place(command),
                       inner.text());
      }
      tell("refused: " + refusal, false);
    } else {
      std::string story = page_->apply(command);
      page_->check_invariants();
      done_.push_back(command);
      undone_.clear();
      tell(std::move(story), false);
    }
  } catch (const kv::UserError& error) {
    // A page does not know where its command stands.
    const std::string text = error.what();
    const std::string whole = text.rfind("line ", 0) == 0 ? text : place(command) + text;
    tell(whole, true);
    throw kv::UserError(whole);
  }
}

bool Session::try_run(const std::string& text) {
  try {
    const Command command = parse_command(text);
    if (!command.verb.empty()) run(command);
    return true;
  } catch (const kv::UserError&) {
    return false;  // run() has told it
  }
}

void Session::expect(const Command& command) const {
  command.check_count(2, 3);
  const std::string& name = command.args[0];
  const std::optional<int64_t> found = page_->counter(name);
  if (!found) {
    std::string names;
    for (const std::string& known : page_->counter_names()) names += " " + known;
    kv::user_error("{}expect: no counter `{}`; there are{}", place(command), name, names);
  }
  const std::string op = command.args.size() == 3 ? command.args[1] : "=";
  const int64_t wanted = command.number(command.args.size() - 1, "a number", INT64_MIN, INT64_MAX);
  const bool holds =
      op == "="    ? *found == wanted
      : op == ">=" ? *found >= wanted
      : op == "<=" ? *found <= wanted
      : op == ">"  ? *found > wanted
      : op == "<"
          ? *found < wanted
          : (kv::user_error("{}expect: wanted =, <, <=, > or >=, found {}", place(command), op),
             false);
  if (!holds) {
    kv::user_error("{}expected {} {} {}, found {}", place(command), name, op, wanted, *found);
  }
}

void Session::replay(size_t count) {
  page_->reset();
  for (size_t i = 0; i < count; ++i) page_->apply(done_[i]);
  page_->check_invariants();
}

void Session::undo() {
  if (done_.empty()) return;
  replay(done_.size() - 1);
  log_.push_back({"undo: " + done_.back().text(), false});
  undone_.push_back(std::move(done_.back()));
  done_.pop_back();
}

void Session::redo() {
  if (undone_.empty()) return;
  const Command command = std::move(undone_.back());
  undone_.pop_back();
  log_.push_back({"redo: " + page_->apply(command), false});
  page_->check_invariants();
  done_.push_back(command);
}

void Session::reset() {
  page_->reset();
  done_.clear();
  undone_.clear();
  caption_.clear();
  position_ = 0;
  playing = false;
}

Scenario Session::recorded(std::string name) const {
  return {.name = std::move(name), .page = page_->info().lesson, .commands = done_};
}

void Session::load(Scenario scenario) {
  if (scenario.page != page_->info().lesson) {
    kv::user_error("{} is a scenario of page {}, this is page {}", scenario.name, scenario.page,
                   page_->info().lesson);
  }
  reset();
  log_.clear();
  scenario_ = std::move(scenario);
}

/// One command that changes the page, with the captions before it and what is expected after it.
/// False at the end of the scenario.
bool Session::play_step() {
  bool changed = false;
  while (!at_end()) {
    const Command& command = scenario_->commands[position_];
    const bool changes =
        command.verb != "say" && command.verb != "expect" && command.verb != "fails";
    if (changed && (changes || command.verb == "say")) return true;
    run(command);
    ++position_;
    changed = changed || changes;
  }
  return changed;
}

bool Session::step() {
  waited_ = 0;
  bool done = false;
  try {
    done = play_step();
  } catch (const kv::UserError&) {  // run() has told it
    playing = false;
    return false;
  }
  if (!done && at_end() && !page_->next_step().empty()) done = try_run(page_->next_step());
  if (!can_step() || !done) playing = false;
  return done;
}

void Session::play_on(size_t steps) {
  for (size_t i = 0; i < steps && play_step(); ++i) {
  }
}

void Session::advance(double seconds) {
  if (!playing) return;
  waited_ += seconds;
  if (waited_ >= seconds_per_step) step();
}

}  // namespace viz
