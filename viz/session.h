#pragma once

// A page and its history. Everything that changes a page goes through run(), so a session can be
// recorded, undone, and played from a file.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/page.h"
#include "viz/scenario.h"

namespace viz {

class Session {
 public:
  explicit Session(std::unique_ptr<Page> page);

  Page& page() { return *page_; }
  const Page& page() const { return *page_; }
  /// Runs a command of the page, or `say`, `expect`, `fails`, `reset`. Throws UserError if it is
  /// refused, an expectation does not hold, or the device fails: the log says why, and but for a
  /// device that failed midway the page is as it was.
  void run(const Command& command);
  /// The same for a click: what is refused is told in the log, not thrown. True if it was done.
  bool try_run(const std::string& command);

  bool can_undo() const { return !done_.empty(); }
  bool can_redo() const { return !undone_.empty(); }
  /// Replays all but the last command. A scenario goes back to before it, too.
  void undo();
  void redo();
  void reset();  // the page, and a loaded scenario to its beginning

  /// Commands that changed the page, as a scenario.
  Scenario recorded(std::string name) const;

  struct LogLine {
    std::string text;
    bool error = false;
  };
  const std::vector<LogLine>& log() const { return log_; }
  const std::string& caption() const { return caption_; }  // the last `say`

  // Playing a scenario: its commands one after the other.
  void load(Scenario scenario);  // resets the page
  const std::optional<Scenario>& scenario() const { return scenario_; }
  size_t position() const { return position_; }  // commands of the scenario that have run
  bool at_end() const { return !scenario_ || position_ == scenario_->commands.size(); }
  /// Runs up to and with the next command that changes the page; at the end of the scenario, or
  /// without one, the page's own next step. False if it failed (the log says why) or there is none.
  bool step();
  bool can_step() const { return !at_end() || !page_->next_step().empty(); }
  /// Runs the scenario on to its end, or `steps` steps of it. Throws UserError, with the line, for
  /// what does not hold.
  void play_on(size_t steps = SIZE_MAX);
  bool playing = false;
  double seconds_per_step = 1.2;
  /// Called once a frame; steps when it is time.
  void advance(double seconds);

 private:
  /// A command that was done, and where the scenario stood before it and after.
  struct Done {
    Command command;
    size_t before = 0;
    size_t after = 0;
  };
  void tell(std::string text, bool error);
  void apply(const Command& command);
  void expect(const Command& command) const;
  void fails(const Command& command);
  void clear();
  void go_to(size_t position);
  void replay(size_t count);
  bool play_step();

  std::unique_ptr<Page> page_;
  std::vector<Done> done_, undone_;
  std::vector<LogLine> log_;
  std::string caption_;
  std::optional<Scenario> scenario_;
  size_t position_ = 0;
  double waited_ = 0;
};

}  // namespace viz
