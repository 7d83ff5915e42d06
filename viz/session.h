#pragma once

// A page and its history. Everything that changes a page goes through run(), so a session can be
// recorded, undone, and played from a file.

#include <cstdint>
#include <memory>
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
  /// Replays all but the last command, a reset and a loading among them. The scenario goes back to
  /// where it was before it, too.
  void undo();
  void redo();
  void reset();  // the page, and a loaded scenario to its beginning

  /// Commands that changed the page since it was new, as a scenario.
  Scenario recorded(std::string name) const;

  struct LogLine {
    std::string text;
    bool error = false;
  };
  /// How often the page has changed: by commands, resets, undo and redo.
  int64_t revision() const { return revision_; }
  const std::vector<LogLine>& log() const { return log_; }
  const std::string& caption() const { return caption_; }  // the last `say`

  // Playing a scenario: its commands one after the other.
  void load(Scenario scenario);                                       // resets the page
  const Scenario* scenario() const { return place_.scenario.get(); }  // null: none
  size_t position() const { return place_.position; }  // commands of the scenario that have run
  bool at_end() const { return !scenario() || position() == scenario()->commands.size(); }
  /// Runs up to and with the next command that changes the page, or is refused as a `fails` wants
  /// it; at the end of the scenario, or without one, the page's own next step. False if it failed
  /// (the log says why) or there is none.
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
  /// Where a scenario stands.
  struct Place {
    std::shared_ptr<const Scenario> scenario;
    size_t position = 0;
  };
  struct Done {
    Command command;  // of the page, or `reset`
    Place before, after;
  };
  void tell(std::string text, bool error);
  void apply(const Command& command);
  void expect(const Command& command) const;
  void fails(const Command& command);
  std::string do_on_page(const Command& command);
  void go_to(const Place& place);
  void begin_anew(const Place& place);
  void replay(size_t count);
  bool play_step();

  std::unique_ptr<Page> page_;
  std::vector<Done> done_, undone_;
  std::vector<LogLine> log_;
  std::string caption_;
  Place place_;
  double waited_ = 0;
  int64_t revision_ = 0;
};

}  // namespace viz
