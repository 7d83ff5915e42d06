#pragma once

// A page and its history. Everything that changes a page goes through run(), so a session can be
// recorded, undone, and played from a file.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/page.h"
#include "viz/shell/scenario.h"

namespace viz {

class Session {
 public:
  explicit Session(std::unique_ptr<Page> page) : page_(std::move(page)) {}

  /// It opens when it is first asked for or changed (PageInfo::opening): that may take a moment.
  Page& page() { return opened_ ? *page_ : open(); }
  const Page& page() const { return *page_; }
  /// Runs a command of the page, or `say`, `expect`, `fails`, `reset`. Throws UserError if it is
  /// refused, an expectation does not hold, or the device fails: the log says why, and but for a
  /// device that failed midway the page is as it was. A scenario that is at its beginning is
  /// put away when the page is changed, as it would begin on another page than it expects; and so
  /// is one during which a live run is begun. Undo brings it back.
  void run(const Command& command) { run(command, false); }
  /// The same for a click: what is refused is told in the log, not thrown. True if it was done.
  bool try_run(const std::string& command);

  bool can_undo() const { return !done_.empty(); }
  bool can_redo() const { return !undone_.empty(); }
  /// Takes back what was done last: a command, a reset, a loading, a walk to another step. What
  /// stays is replayed. The scenario goes back to where it was, too.
  void undo();
  void redo();
  void reset();  // the page, and a loaded scenario to its beginning
  void close();  // puts the scenario away; the page is as it was before

  /// Commands that changed the page since it was new, as a scenario.
  Scenario recorded(std::string name) const;

  struct LogLine {
    std::string text;
    bool error = false;
  };
  /// Entries that undo can take back; the same command over and over is one.
  size_t history_size() const { return done_.size(); }
  /// Number of changes of the page: by commands, resets, undo and redo.
  int64_t revision() const { return revision_; }
  /// Whether the last change was a command, so that its motion tells what happened; else the page
  /// was brought to a state that it had, or will have.
  bool moves_on() const { return moves_on_; }
  /// Lines told by the commands that led to the shown state, since the page was new, and refusals
  /// since the last walk back.
  const std::vector<LogLine>& log() const { return log_; }
  const std::string& caption() const { return caption_; }  // the last `say`; at first the title

  // Playing a scenario: its commands one after the other, in steps: up to and with the next command
  // that changes the page or is refused, and what is expected of it.
  /// Resets the page and runs the commands before the scenario's first sentence, so that it begins
  /// with their state. Throws UserError if one of them fails; the page is as it was then.
  void load(Scenario scenario);
  const Scenario* scenario() const {  // null: none
    return place_.story ? &place_.story->scenario : nullptr;
  }
  size_t position() const { return place_.position; }  // commands of the scenario that have run
  /// Whether the scenario's commands so far, and no others, have led to the page's state.
  bool is_on_scenario() const;
  bool at_end() const { return !scenario() || position() == scenario()->commands.size(); }
  // Without a scenario: what was done since the page was new, with what can be redone.
  size_t num_steps() const;
  size_t steps_done() const;
  /// Brings the page to its state after `step` steps. Several walks in a row are undone as one;
  /// without a scenario it undoes or redoes.
  void go_to_step(size_t step);
  /// To the step before, or before the last command if that was not the scenario's.
  void step_back();
  /// Does the next step; at the end of the scenario, or without one, the page's own. False if it
  /// failed (the log says why), there is none, or playing waits for it.
  bool step();
  bool can_step() const { return !at_end() || !page_->next_step().empty(); }
  /// Runs the scenario on to its end, or `steps` steps of it. Throws UserError, with the line, for
  /// what does not hold.
  void play_on(size_t steps = SIZE_MAX);
  bool playing = false;
  double seconds_per_step = 0.6;  // if there is nothing to read
  /// Called once a frame. Plays, when it is time: shows a sentence, and a moment later does what it
  /// announces. The next sentence waits until this one can have been read.
  void advance(double seconds);
  /// Whether advance() by these seconds would do a step.
  bool is_due(double seconds) const;
  /// The command that step() would run next; empty if there is none.
  std::string next_verb() const;

 private:
  struct Story {
    Scenario scenario;
    size_t begin = 0;               // number of commands before its first sentence: not steps
    std::vector<size_t> ends = {};  // of its steps: how many commands have run then
  };
  /// Position in a scenario.
  struct Place {
    std::shared_ptr<const Story> story;
    size_t position = 0;
    bool operator==(const Place&) const = default;
  };
  /// Change that one undo takes back.
  struct Done {
    std::string what;
    bool restarts = false;               // from an empty page on
    std::vector<Command> commands = {};  // of the page
    Place before = {}, after = {};
    bool is_walk = false;  // by go_to_step()
    int64_t times = 1;     // in a row; each can be undone
  };
  void tell(std::string text, bool error);
  void run(const Command& command, bool of_scenario);
  void apply(const Command& command, bool of_scenario);
  void expect(const Command& command) const;
  void fails(const Command& command);
  void note(Done done);
  Done take_back();
  void go_to_own(size_t step);
  std::string do_on_page(const Command& command);
  void do_all(const Done& done);
  void start_over(std::string what, const std::shared_ptr<const Story>& story,
                  std::vector<Command> own);
  std::vector<Command> changes(size_t count) const;
  static void add_steps(const std::vector<Command>& commands, size_t end, Done& done);
  bool replay(size_t count);
  std::vector<Command> opening() const;
  void begin();
  Page& open();
  static Place unannounced(Place place);
  void go_to(const Place& place);
  bool play_step();
  const std::string* next_sentence() const;

  std::unique_ptr<Page> page_;
  bool opened_ = false;
  std::vector<Done> done_, undone_;
  std::vector<LogLine> log_;
  std::string caption_;
  Place place_;
  double waited_ = 0, wait_ = 0, shown_ = 0;  // seconds; shown_: for which the sentence has stood
  int64_t revision_ = 0;
  bool moves_on_ = false;
};

/// Time for which a sentence is shown, in seconds.
double seconds_to_read(std::string_view sentence);

}  // namespace viz
