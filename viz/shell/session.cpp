#include "viz/shell/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "common/error.h"

namespace viz {
namespace {

constexpr size_t kMaxLogLines = 500;
constexpr size_t kMaxLogLine = 1000;  // bytes; a typed line may be longer

/// A command of the page, done or refused.
bool is_step(const Command& command) { return command.verb != "say" && command.verb != "expect"; }

bool is_change(const Command& command) {
  return is_step(command) && command.verb != "fails" && command.verb != "reset";
}

/// `why` a command failed, with its line: messages of a lesson's classes have none yet.
std::string placed(const Command& command, const std::string& why) {
  return why.starts_with("line ") ? why : command.place() + why;
}

/// Where the step ends that begins there: after the next command that changes the page or is
/// refused, and what is expected of it.
size_t end_of_step(const std::vector<Command>& commands, size_t from) {
  bool stepped = false;
  for (; from < commands.size(); ++from) {
    if (stepped && commands[from].verb != "expect") break;
    stepped = stepped || is_step(commands[from]);
  }
  return from;
}

/// Returns the caption at `position`: the last sentence, or the scenario's title before the first
/// step.
std::string sentence_at(const Scenario& scenario, size_t begin, size_t position) {
  const auto before = std::span(scenario.commands).subspan(begin, position - begin);
  if (std::ranges::none_of(before, is_step)) return scenario.shown_title();
  const auto last = std::find_if(before.rbegin(), before.rend(),
                                 [](const Command& command) { return command.verb == "say"; });
  return last == before.rend() || last->args.empty() ? "" : last->args[0];
}

}  // namespace

/// What a page without a scenario begins with.
std::vector<Command> Session::opening() const {
  std::vector<Command> lines;
  for (const std::string& line : page_->info().opening) lines.push_back(parse_command(line));
  return lines;
}

/// A new page with its opening, which may throw.
void Session::begin() {
  opened_ = true;
  page_->reset();
  log_.clear();  // what happened is what has happened up to here
  for (const Command& command : opening()) do_on_page(command);
}

Page& Session::open() {
  try {
    begin();
  } catch (const std::runtime_error& error) {  // there may be no model
    page_->reset();
    tell(error.what(), true);
  }
  moves_on_ = false;
  revision_ = 0;  // the opening is no news
  return *page_;
}

void Session::tell(std::string text, bool error) {
  if (log_.size() >= kMaxLogLines) log_.erase(log_.begin());
  if (text.size() > kMaxLogLine) text.replace(kMaxLogLine, std::string::npos, " ..");
  log_.push_back({std::move(text), error});
}

void Session::run(const Command& command, bool of_scenario) {
  page();  // it opens
  try {
    apply(command, of_scenario);
  } catch (const std::runtime_error& error) {
    // A device that fails is told like a refused command, so the window stays open.
    tell(placed(command, error.what()), true);
    throw kv::UserError(log_.back().text);
  }
}

void Session::apply(const Command& command, bool of_scenario) {
  if (command.verb == "say") {
    command.check_count(1, 1);
    caption_ = command.args[0];
  } else if (command.verb == "expect") {
    expect(command);
  } else if (command.verb == "fails") {
    fails(command);
  } else if (command.verb == "reset" && !of_scenario) {
    command.check_count(0, 0);
    reset();
  } else {
    Done done{.what = command.text(), .restarts = command.verb == "reset"};
    const bool went_on = !page_->next_step().empty();
    std::string story = do_on_page(command);
    if (!done.restarts) done.commands.push_back(command);
    done.before = place_;
    // A scenario goes on from its own state only: playing then goes on with what is shown.
    const bool goes_on = !went_on && !page_->next_step().empty();
    const bool at_begin = scenario() && steps_done() == 0;
    if (!done.restarts && !of_scenario && (at_begin || goes_on)) go_to({});
    done.after = place_;
    if (done.restarts) log_.clear();
    note(std::move(done));
    undone_.clear();
    tell(std::move(story), false);
  }
}

/// A page that goes on by itself for days has one entry for that.
void Session::note(Done done) {
  Done* const last = done_.empty() ? nullptr : &done_.back();
  if (last != nullptr && !last->restarts && last->what == done.what && done.before == done.after &&
      last->before == last->after && last->after == done.after) {
    last->times += done.times;
  } else {
    done_.push_back(std::move(done));
  }
}

std::string Session::do_on_page(const Command& command) {
  ++revision_;
  moves_on_ = true;
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

/// Does it again, and tells it as it was told.
void Session::do_all(const Done& done) {
  if (done.restarts) {
    ++revision_;
    page_->reset();
    log_.clear();
  }
  for (int64_t i = 0; i < done.times; ++i) {
    for (const Command& command : done.commands) {
      try {
        if (command.verb == "fails") {
          fails(command);
        } else if (command.verb == "expect") {
          expect(command);
        } else {
          tell(do_on_page(command), false);
        }
      } catch (const std::runtime_error& error) {
        throw kv::UserError(placed(command, error.what()));
      }
    }
  }
}

/// Adds the first `end` commands of a scenario but for what is said.
void Session::add_steps(const std::vector<Command>& commands, size_t end, Done& done) {
  for (size_t i = 0; i < end; ++i) {
    if (commands[i].verb != "say") done.commands.push_back(commands[i]);
  }
}

/// Replays the first `count` entries. A live run may need a device that is gone: then the page is
/// empty, all entries can be done again, and replay() returns false.
bool Session::replay(size_t count) {
  ++revision_;
  playing = false;
  size_t first = count;  // the last one that starts over
  while (first > 0 && !done_[--first].restarts) {
  }
  try {
    if (count == 0 || !done_[first].restarts) begin();
    for (size_t i = first; i < count; ++i) do_all(done_[i]);
    moves_on_ = false;
    return true;
  } catch (const std::runtime_error& error) {
    tell(fmt::format("{}; the page starts over, redo tries again", error.what()), true);
  }
  page_->reset();
  moves_on_ = false;
  undone_.insert(undone_.end(), std::make_move_iterator(done_.rbegin()),
                 std::make_move_iterator(done_.rend()));
  done_.clear();
  return false;
}

/// Moves what was done last, once, to what can be redone. The page is as it was until a replay.
Session::Done Session::take_back() {
  Done last = done_.back();
  last.times = 1;
  if (--done_.back().times == 0) done_.pop_back();
  undone_.push_back(last);
  return last;
}

void Session::undo() {
  if (done_.empty()) return;
  const Done last = take_back();
  if (replay(done_.size())) go_to(unannounced(last.before));
}

/// A place in the middle of a step, without the sentences that announced what was undone.
Session::Place Session::unannounced(Place place) {
  if (!place.story || std::ranges::count(place.story->ends, place.position) > 0) return place;
  const std::vector<Command>& commands = place.story->scenario.commands;
  while (place.position > place.story->begin && commands[place.position - 1].verb == "say") {
    --place.position;
  }
  return place;
}

void Session::go_to_own(size_t step) {
  Place before = place_;
  const size_t here = steps_done();
  for (size_t i = here; i > step; --i) before = take_back().before;
  if (step < here && replay(done_.size())) go_to(before);
  for (size_t left = undone_.size() + 1; steps_done() < step && undone_.size() < left; redo()) {
    left = undone_.size();
  }
}

void Session::redo() {
  if (undone_.empty()) return;
  const Done& next = undone_.back();
  playing = false;
  try {
    if (done_.empty() && !next.restarts) begin();  // that may have failed
    do_all(next);
  } catch (const std::runtime_error& error) {
    const std::string why = fmt::format("redo: {}", error.what());
    if (next.restarts || done_.empty()) replay(done_.size());
    return tell(why, true);
  }
  moves_on_ = !next.restarts;
  go_to(next.after);
  note(std::move(undone_.back()));
  undone_.pop_back();
}

/// The page as `own` commands leave it, or a scenario at its beginning; what was there comes back
/// by undo.
void Session::start_over(std::string what, const std::shared_ptr<const Story>& story,
                         std::vector<Command> own) {
  Done done{.what = std::move(what),
            .restarts = true,
            .before = place_,
            .after = {story, story ? story->begin : 0}};
  const Place place = done.after;
  opened_ = true;
  if (story) add_steps(story->scenario.commands, place.position, done);
  if (!story) done.commands = std::move(own);
  try {
    do_all(done);
    page_->check_invariants();
  } catch (const std::runtime_error& error) {
    const std::string why = fmt::format("{}: {}", done.what, error.what());
    replay(done_.size());
    kv::user_error("{}", why);
  }
  moves_on_ = playing = false;
  done_.push_back(std::move(done));
  undone_.clear();
  go_to(place);
}

void Session::reset() {
  try {
    start_over("reset", place_.story, opening());
  } catch (const kv::UserError& error) {
    tell(error.what(), true);
  }
}

/// Before this scenario another one may have played.
void Session::close() {
  size_t before = done_.size();
  while (before > 0 && done_[before - 1].before.story) --before;
  if (before > 0) --before;  // the loading
  try {
    start_over("close", nullptr, changes(before));
  } catch (const kv::UserError& error) {
    tell(error.what(), true);
  }
}

void Session::go_to(const Place& place) {
  if (place == place_) return;
  place_ = place;
  caption_ = scenario() ? sentence_at(*scenario(), place_.story->begin, position()) : "";
  waited_ = shown_ = 0;
  wait_ = steps_done() == 0 ? 0 : seconds_to_read(caption_);  // a film begins at once
}

size_t Session::num_steps() const {
  if (place_.story) return place_.story->ends.size();
  const auto fresh =
      std::find_if(undone_.rbegin(), undone_.rend(), [](auto& one) { return one.restarts; });
  return steps_done() + static_cast<size_t>(fresh - undone_.rbegin());
}

size_t Session::steps_done() const {
  if (!place_.story) {
    size_t done = 0;
    for (size_t i = done_.size(); i > 0 && !done_[i - 1].restarts; --i) {
      done += static_cast<size_t>(done_[i - 1].times);
    }
    return done;
  }
  const std::vector<size_t>& ends = place_.story->ends;
  return static_cast<size_t>(std::ranges::upper_bound(ends, position()) - ends.begin());
}

void Session::go_to_step(size_t step) {
  step = std::min(step, num_steps());
  if (!place_.story) return go_to_own(step);
  const size_t end = step == 0 ? place_.story->begin : place_.story->ends[step - 1];
  if (end == position()) return;
  Done walk{.what = fmt::format("to step {} of {}", step, num_steps()),
            .restarts = true,
            .commands = {},
            .before = place_,
            .after = {place_.story, end},
            .is_walk = true};
  add_steps(scenario()->commands, end, walk);
  try {
    do_all(walk);
  } catch (const std::runtime_error& error) {
    const std::string why = fmt::format("{}: {}", walk.what, error.what());
    replay(done_.size());
    return tell(why, true);
  }
  moves_on_ = playing = false;
  go_to(walk.after);
  if (can_undo() && done_.back().is_walk) {
    walk.before = done_.back().before;
    done_.pop_back();
  }
  done_.push_back(std::move(walk));
  undone_.clear();
}

void Session::step_back() {
  if (!can_undo()) return;
  const Done& last = done_.back();
  if (!scenario() || (!last.is_walk && last.before == last.after)) return undo();  // not its own
  if (steps_done() > 0) go_to_step(steps_done() - 1);
}

/// The commands that led to the state after the first `count` entries, from an empty page on.
std::vector<Command> Session::changes(size_t count) const {
  std::vector<Command> changes = opening();
  for (const Done& done : std::span(done_).first(count)) {
    if (done.restarts) changes.clear();
    for (int64_t i = 0; i < done.times; ++i) {
      for (const Command& command : done.commands) {
        if (command.verb == "reset") changes.clear();
        if (is_change(command)) changes.push_back(command);
      }
    }
  }
  return changes;
}

Scenario Session::recorded(std::string name) const {
  return {.name = std::move(name), .page = page_->info().lesson, .commands = changes(done_.size())};
}

bool Session::is_on_scenario() const {
  if (!scenario()) return false;
  std::vector<Command> own;
  for (const Command& command : std::span(scenario()->commands).first(position())) {
    if (is_change(command)) own.push_back(command);
  }
  return std::ranges::equal(recorded({}).commands, own, [](const Command& a, const Command& b) {
    return a.verb == b.verb && a.args == b.args;
  });
}

void Session::load(Scenario scenario) {
  if (scenario.page != page_->info().lesson) {
    kv::user_error("{} is a scenario of page {}, this is page {}", scenario.name, scenario.page,
                   page_->info().lesson);
  }
  auto story = std::make_shared<Story>(Story{.scenario = std::move(scenario)});
  const std::vector<Command>& commands = story->scenario.commands;
  const auto first = std::ranges::find(commands, "say", &Command::verb);
  if (first != commands.end()) story->begin = static_cast<size_t>(first - commands.begin());
  for (size_t end = story->begin; end < commands.size();) {
    story->ends.push_back(end = end_of_step(commands, end));
  }
  start_over("load " + story->scenario.name, story, {});
}

/// One step. False at the end of the scenario.
bool Session::play_step() {
  bool stepped = false;
  const size_t end = at_end() ? position() : end_of_step(scenario()->commands, position());
  while (position() < end) {
    const Command& command = scenario()->commands[position()];
    run(command, true);
    ++place_.position;
    if (!is_step(command)) continue;
    if (command.verb != "fails") done_.back().after = place_;
    stepped = true;
  }
  return stepped;
}

}  // namespace viz
