#include "viz/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "common/base/error.h"

namespace viz {
namespace {

constexpr size_t kMaxLogLines = 500;
constexpr size_t kMaxLogLine = 1000;  // bytes: what somebody typed may be long

/// A command of the page, done or refused.
bool is_step(const Command& command) { return command.verb != "say" && command.verb != "expect"; }

}  // namespace

Session::Session(std::unique_ptr<Page> page) : page_(std::move(page)) {}

void Session::tell(std::string text, bool error) {
  if (log_.size() >= kMaxLogLines) log_.erase(log_.begin());
  if (text.size() > kMaxLogLine) text.replace(kMaxLogLine, std::string::npos, " ..");
  log_.push_back({std::move(text), error});
}

void Session::run(const Command& command) {
  try {
    apply(command);
  } catch (const std::runtime_error& error) {
    // A device that fails is told like a refused command, so the window stays open. Messages of a
    // lesson's classes have no line number yet.
    const std::string text = error.what();
    tell(text.starts_with("line ") ? text : command.place() + text, true);
    throw kv::UserError(log_.back().text);
  }
}

void Session::apply(const Command& command) {
  if (command.verb == "say") {
    command.check_count(1, 1);
    caption_ = command.args[0];
  } else if (command.verb == "expect") {
    expect(command);
  } else if (command.verb == "fails") {
    fails(command);
  } else {
    std::string story = do_on_page(command);
    done_.push_back({.command = command, .before = place_, .after = place_});
    undone_.clear();
    tell(std::move(story), false);
  }
}

std::string Session::do_on_page(const Command& command) {
  ++revision_;
  std::string story = "reset: a new page";
  if (command.verb == "reset") {
    command.check_count(0, 0);
    page_->reset();
  } else {
    story = page_->apply(command);
  }
  page_->check_invariants();
  return story;
}

void Session::fails(const Command& command) {
  const Command inner{.verb = command.word(0, "a command"),
                      .args = {command.args.begin() + 1, command.args.end()},
                      .line = command.line};
  // A name that nobody knows is refused as well: that proves nothing.
  if (!page_->knows(inner)) {
    kv::user_error("{}fails: this page has no command `{}`", command.place(), inner.verb);
  }
  ++revision_;  // pages show why they refuse
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
    kv::user_error("{}expect: no counter `{}`; there are {}", command.place(), name,
                   fmt::join(page_->counter_names(), " "));
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
  ++revision_;
  size_t first = count;  // from the last reset on
  while (first > 0 && done_[first - 1].command.verb != "reset") --first;
  page_->reset();
  for (size_t i = first; i < count; ++i) do_on_page(done_[i].command);
}

void Session::undo() {
  if (done_.empty()) return;
  try {
    replay(done_.size() - 1);
  } catch (const std::runtime_error& error) {  // a live run may need a device that is gone
    page_->reset();
    done_.clear();
    undone_.clear();
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
    tell("redo: " + do_on_page(undone_.back().command), false);
  } catch (const std::runtime_error& error) {
    return tell(fmt::format("redo: {}", error.what()), true);
  }
  go_to(undone_.back().after);
  done_.push_back(std::move(undone_.back()));
  undone_.pop_back();
}

/// An empty page, and a scenario; what was there comes back by undo.
void Session::begin_anew(const Place& place) {
  apply({.verb = "reset", .args = {}});
  done_.back().after = place;
  go_to(place);
  playing = false;
}

void Session::reset() { begin_anew({place_.scenario, 0}); }

/// With the caption that holds there.
void Session::go_to(const Place& place) {
  if (place.scenario == place_.scenario && place.position == place_.position) return;
  place_ = place;
  caption_.clear();
  for (size_t i = 0; i < place_.position; ++i) {
    const Command& command = scenario()->commands[i];
    if (command.verb == "say") caption_ = command.args[0];
  }
}

Scenario Session::recorded(std::string name) const {
  Scenario scenario{.name = std::move(name), .page = page_->info().lesson, .commands = {}};
  for (const Done& done : done_) {
    if (done.command.verb == "reset")
      scenario.commands.clear();
    else
      scenario.commands.push_back(done.command);
  }
  return scenario;
}

void Session::load(Scenario scenario) {
  if (scenario.page != page_->info().lesson) {
    kv::user_error("{} is a scenario of page {}, this is page {}", scenario.name, scenario.page,
                   page_->info().lesson);
  }
  begin_anew({std::make_shared<const Scenario>(std::move(scenario)), 0});
  log_.clear();
}

/// One command that changes the page or is refused, with the captions before it and what is
/// expected after it. False at the end of the scenario.
bool Session::play_step() {
  bool stepped = false;
  while (!at_end()) {
    const Command& command = scenario()->commands[position()];
    if (stepped && command.verb != "expect") return true;
    run(command);
    ++place_.position;
    if (!is_step(command)) continue;
    if (command.verb != "fails") done_.back().after = place_;
    stepped = true;
  }
  return stepped;
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
