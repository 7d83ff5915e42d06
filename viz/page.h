#pragma once

// The seam between the visualizer and a lesson. A page owns objects of its lesson's own classes and
// changes them by commands alone: a button, a key, a scenario line and an undo all go through
// apply(). What a page can do and what can be read off it are two tables; messages, help, buttons,
// fields and `expect` come from them. There is no second implementation of anything that a lesson
// teaches.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kernel.h"
#include "viz/drawing/scene.h"
#include "viz/drawing/text_room.h"
#include "viz/shell/scenario.h"

namespace viz {

class Ui;  // viz/ui.h: what draw() may use

/// Settings from outside, the same for all pages.
struct PageContext {
  std::filesystem::path model_dir;  // for live runs
  std::string device = "auto";      // as --device
  kv::Kernel kernel = kv::Kernel::kFast;
  uint64_t seed = 0;
};

struct PageInfo {
  std::string lesson;                     // "05"; of a page that is no lesson's: its name
  std::string title;                      // of the tab: "Share and copy"
  std::string summary;                    // one sentence
  std::vector<std::string> opening = {};  // lines that a page begins with, without a scenario
  float tall = 520;                       // points that its narrow picture needs (text_room.h)
};

/// Argument that may follow a verb: made by word(), number() and the others below.
struct Argument {
  enum class Kind { kWord, kQuoted, kNumber, kPowerOfTwo, kChoice, kWords };
  Kind kind = Kind::kWord;
  std::string name;  // "TOKENS"; of a choice: "exact|hash"
  int64_t min = 0;   // of the number; of words: how many there are
  int64_t max = 0;
  std::optional<std::string> otherwise = {};  // what counts if it is left out
  std::string label = {};                     // of its field in a form
  std::string shown = {};                     // in the field at first
  std::function<std::string()> state = {};    // of the page: what the field follows

  Argument or_else(std::string value) const;
  Argument field(std::string its_label, std::string at_first) const;
  Argument follows(std::function<std::string()> of_page) const;
  Argument follows(std::function<int64_t()> of_page) const;
};
Argument word(std::string name);  // any one that is not empty
Argument text(std::string name);  // the same, quoted: it mostly has spaces
Argument number(std::string name, int64_t min, int64_t max);
Argument power_of_two(std::string name, int64_t max);
Argument choice(std::string names);                          // "exact|hash"
Argument words(std::string name, int64_t min, int64_t max);  // the last argument: min to max words

/// An argument as it was given, or what counts if it was left out.
struct Word {
  std::string text;
  int number = 0;  // of a choice: its index
};
using Words = std::vector<Word>;
/// From word i on.
std::vector<std::string> texts(const Words& words, size_t i);

/// One row of a page's table of commands.
struct Verb {
  std::string name;  // "append"; or two words, "live beams"
  std::vector<Argument> args;
  std::string help;  // "NAME grows by TOKENS": a button's tooltip has the words in their places
  /// Does it and says in plain words what happened ("B now shares the 4 blocks of A").
  /// Throws kv::UserError if it cannot be done; nothing has changed then.
  std::function<std::string(const Words&)> run;
  /// The reason why it would be refused now, shown by its disabled buttons; empty if it would not.
  std::function<std::string(const Words&)> why_not = {};
  /// The player runs this command if there is no scenario.
  bool goes_on = false;
  /// True if the command is refused only until something arrives; playing waits for it.
  std::function<bool()> on_its_way = {};
  /// Of a command that chooses: true if these words are what the page has now.
  std::function<bool(const Words&)> holds = {};

  Verb holding_if(std::function<bool(const Words&)> its_words_hold) const {
    Verb changed = *this;
    changed.holds = std::move(its_words_hold);
    return changed;
  }
};

/// Rows that are refused as long as reason() is not empty.
std::vector<Verb> unless(std::function<std::string()> reason, std::vector<Verb> verbs);

/// One row of a page's table of counters, with its value at this moment.
struct Counter {
  std::string name;  // what `expect` reads: "free", "A.tokens"
  int64_t value = 0;
  std::string label = {};  // of its box above the page; empty: it has none
  std::string tooltip = {};
  std::string text = {};  // in the box; empty: the value
};
/// A part of a whole: `expect` reads thousandths, the box shows percent.
Counter share(std::string name, int64_t part, int64_t whole, std::string label, std::string tooltip,
              int digits = 0);

struct Button {
  std::string name;  // unique on the page: how tests and scripts find it ("A/append 10")
  std::string label;
  std::string command;       // a line that it runs
  std::string tooltip = {};  // empty: the help of its verb
  char key = 0;              // of an action: a letter that does the same
  bool asked = false;        // of an action: the page's state asks for it
};

/// A button for each value of a command's first word, "window 8". `rest`: the words that follow.
std::vector<Button> one_of(const std::string& verb, const std::vector<int>& values,
                           const std::string& rest = "");

/// "+16": the sequence `of` grows by `tokens`, by the page's command `append`.
Button append(const std::string& of, int tokens, char key, bool asked = false);

class Page {
 public:
  explicit Page(PageInfo info) : info_(std::move(info)) {}
  virtual ~Page() = default;
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  /// Sets the page back to its first state.
  virtual void reset() = 0;
  /// All that `expect` can read, and the boxes above the page, in this order.
  virtual std::vector<Counter> counters() const = 0;
  /// Throws std::logic_error if something that must hold does not. Called after every command.
  virtual void check_invariants() const = 0;
  /// The page as a picture that fits in `room`. Never changes the state.
  virtual Scene scene(const Room& room) = 0;
  /// Large buttons below the picture, mostly for what is selected; one of them at most is asked
  /// for. They have keys other than those of the window (Shell::typed).
  virtual std::vector<Button> actions() const { return {}; }
  /// The other buttons and fields, not shown during a live run. Never changes the state: controls
  /// queue commands.
  virtual void draw(Ui& ui) = 0;

  const PageInfo& info() const { return info_; }
  /// Does one command and says what happened. Throws kv::UserError if it is unknown or refused;
  /// nothing has changed then. `say`, `expect`, `fails` and `reset` never come here: the session
  /// knows them. Deterministic: the same commands after reset() give the same state (undo replays).
  std::string apply(const Command& command);
  /// The reason why apply() would refuse it; empty if the table knows of none.
  std::string why_not(const Command& command) const;
  bool knows(const Command& command) const { return find(command).first != nullptr; }
  std::optional<int64_t> counter(std::string_view name) const;
  std::vector<std::string> counter_names() const;
  /// "append NAME TOKENS", "NAME grows by TOKENS": for each command.
  std::vector<std::pair<std::string, std::string>> help() const;
  /// The command that the player runs next without a scenario, now or when something arrives.
  /// Empty if there is none.
  std::string next_step() const;
  /// True if next_step() has to be waited for.
  bool waits() const;

  /// Buttons side by side. What they run must be in the table; what it refuses is disabled.
  void buttons(Ui& ui, const std::vector<Button>& row) const;
  /// The same after the name of what they choose, "Window  4  8  16". The one whose command holds
  /// is lit.
  void choice(Ui& ui, std::string_view of, const std::vector<Button>& row) const;
  /// Fields for the arguments that the button's line leaves open, then the button.
  void form(Ui& ui, Button button);
  /// The field of one argument, called "VERB/ARGUMENT"; fields keep what they hold, apart from the
  /// page's state. Returns that.
  std::string field(Ui& ui, const std::string& verb, const std::string& argument);

  /// Name of the shape that the mouse, or a command that made it, selected last ("A"); empty if
  /// there is none. Buttons are for that. It is no state of the page: it may be gone.
  const std::string& selected() const { return selected_; }
  void select(std::string what) { selected_ = std::move(what); }

 protected:
  void declare(std::vector<Verb> verbs);
  /// After every command: for pages that mark what the last one changed.
  virtual void changed() {}
  /// After a command that the table refuses, before apply() throws: for pages that show why.
  virtual void refused(const Command& command, const std::string& why) {
    static_cast<void>(command), static_cast<void>(why);
  }

 private:
  std::pair<const Verb*, Command> find(const Command& line) const;
  bool holds(const Command& command) const;
  void row(Ui& ui, const std::vector<Button>& buttons, bool chooses) const;

  PageInfo info_;
  std::vector<Verb> verbs_;
  struct Field {
    Word held;
    std::optional<std::string> state = {};  // of the page, when the field was drawn last
  };
  std::map<std::string, Field> fields_;  // by "VERB/ARGUMENT"
  std::string selected_;
};

/// Every lesson with a page.cpp has, in its namespace,
///   std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);

}  // namespace viz
