#include "viz/session.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/base/error.h"

namespace viz {
namespace {

constexpr size_t kMaxLogLines = 500;
constexpr size_t kMaxLogLine = 1000;  // bytes: what somebody typed may be long

bool stands_for_itself(const Command& command) {
  return command.verb == "say" || command.verb == "expect" || command.verb == "fails";
}

}  // namespace

Session::Session(std::unique_ptr<Page> page) : page_(std::move(page)) {}

void Session::tell(std::string text, bool error) {
  if (log_.size() >= kMaxLogLines) log_.erase(log_.begin());
  if (text.size() > kMaxLogLine) text.replace(kMaxLogLine, std::string::npos, " ..");
  log_.push_back({std::move(text), error});
}

void Session::run(const Command& command) {
  // Messages of a lesson's classes have no line number yet. A device that fails is reported like a
  // refused command, so the window stays open.
  const auto refuse = [&](const std::exception& error) {
    const std::string text = error.what();
    const std::string whole = text.starts_with("line ") ? text : command.place() + text;
    tell(whole, true);
    throw kv::UserError(whole);
  };
  try {
    apply(command);
  } catch (const kv::UserError& error) {
    refuse(error);
  } catch (const kv::DeviceError& error) {
    refuse(error);
  }
}

void Session::apply(const Command& command) {
  if (command.verb == "say") {
    command.check_count(1, 1);
    caption_ = command.args[0];
  } else if (command.verb == "expect") {
    expect(command);
  } else if (command.verb == "reset") {
    command.check_count(0, 0);
    clear();
  } else if (command.verb == "fails") {
    fails(command);
  } else {
    std::string story = page_->apply(command);
    page_->check_invariants();
    done_.push_back({.command = command, .before = position_, .after = position_});
    undone_.clear();
    tell(std::move(story), false);
  }
}

void Session::fails(const Command& command) {
  const Command inner{.verb = command.word(0, "a command"),
                      .args = {command.args.begin() + 1, command.args.end()},
                      .line = command.line};
  // A name that nobody knows is refused as well: that proves nothing.
  if (!page_->knows(inner)) {
    kv::user_error("{}fails: this page has no command `{}`", command.place(), inner.verb);
  }
  std::string refusal;
  try {
    page_->apply(inner);
  } catch (const kv::UserError& error) {
    refusal = error.what();
  }
  page_->check_invariants();
  if (refusal.empty()) {
    replay(done_.size());  // it was done: take it back
    kv::user_error("{}expected that `{}` is refused, but it was done", command.place(),
                   inner.text());
  }
  tell("refused: " + refusal, false);
}

bool Session::try_run(const std::string& text) {
  Command command;
  try {
    command = parse_command(text);
  } catch (const kv::UserError& error) {
    tell(error.what(), true);
    return false;
  }
  try {
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
    kv::user_error("{}expect: no counter `{}`; there are{}", command.place(), name, names);
  }
  const std::string op = command.args.size() == 3 ? command.args[1] : "=";
  const int64_t wanted = command.number(command.args.size() - 1, "a number", INT64_MIN, INT64_MAX);
  const std::map<std::string, bool> holds{{"=", *found == wanted},
                                          {"<", *found < wanted},
                                          {"<=", *found <= wanted},
                                          {">", *found > wanted},
                                          {">=", *found >= wanted}};
  if (!holds.contains(op)) {
    kv::user_error("{}expect: wanted =, <, <=, > or >=, found {}", command.place(), op);
  }
  if (!holds.at(op)) {
    kv::user_error("{}expected {} {} {}, found {}", command.place(), name, op, wanted, *found);
  }
}

void Session::replay(size_t count) {
  page_->reset();
  for (size_t i = 0; i < count; ++i) page_->apply(done_[i].command);
  page_->check_invariants();
}

void Session::undo() {
  if (done_.empty()) return;
  try {
    replay(done_.size() - 1);
  } catch (const std::runtime_error& error) {  // a live run may need a device that is gone
    clear();
    return tell(fmt::format("undo: {}; the page begins anew", error.what()), true);
  }
  tell("undo: " + done_.back().command.text(), false);
  go_to(done_.back().before);
  undone_.push_back(std::move(done_.back()));
  done_.pop_back();
}

void Session::redo() {
  if (undone_.empty()) return;
  try {
    tell("redo: " + page_->apply(undone_.back().command), false);
  } catch (const std::runtime_error& error) {
    return tell(fmt::format("redo: {}", error.what()), true);
  }
  page_->check_invariants();
  go_to(undone_.back().after);
  done_.push_back(std::move(undone_.back()));
  undone_.pop_back();
}

void Session::clear() {
  page_->reset();
  done_.clear();
  undone_.clear();
  tell("reset: a new page", false);
}

void Session::reset() {
  clear();
  caption_.clear();
  position_ = 0;
  playing = false;
}

/// The scenario stands before its command `position`, with the caption that holds there.
void Session::go_to(size_t position) {
  if (position == position_ || !scenario_) return;
  position_ = position;
  caption_.clear();
  for (size_t i = 0; i < position_; ++i) {
    const Command& command = scenario_->commands[i];
    if (command.verb == "say") caption_ = command.args[0];
  }
}

Scenario Session::recorded(std::string name) const {
  Scenario scenario{.name = std::move(name), .page = page_->info().lesson, .commands = {}};
  for (const Done& done : done_) scenario.commands.push_back(done.command);
  return scenario;
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
    const bool changes = !stands_for_itself(command);
    if (changed && (changes || command.verb == "say")) return true;
    run(command);
    ++position_;
    if (changes && !done_.empty()) done_.back().after = position_;
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
