#pragma once

// Scenarios: what can be done on a page, as lines of text. A click makes the same lines, so every
// session can be recorded, replayed, undone and tested.
//
//   page 05                  # first line: whose scenario this is
//   order 2                  # its place among the page's films; it may be left out
//   title "Who pays?"        # its name there; else the file's
//   new A
//   say "A prompt of 64."    # caption, shown while it plays; what is before the first one is
//   append A 64              # no step: the scenario begins with it
//   fork A B
//   expect used 4            # a counter of the page; also: expect used >= 4
//   fails append A 100000    # the command after `fails` must be refused
//
// Words are separated by spaces; "..." is one word (\" and \\ inside); # begins a comment.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace viz {

/// One line: a verb and its words.
struct Command {
  std::string verb;
  std::vector<std::string> args;
  int line = 0;  // in its file; 0: from a click

  /// "line 3: ", or nothing for a click.
  std::string place() const;
  /// The line that parses to this command.
  std::string text() const;
  /// Word i. Throws kv::UserError "line 3: append wants ..." if there is none.
  const std::string& word(size_t i, std::string_view what) const;
  /// Word i as a number in min..max. Throws kv::UserError with what was found and wanted.
  int64_t number(size_t i, std::string_view what, int64_t min, int64_t max) const;
  /// Throws kv::UserError unless there are between min and max words.
  void check_count(size_t min, size_t max, const std::string& hint = "") const;
};

/// Throws kv::UserError for an unfinished quote. No verb: the line is empty or a comment.
Command parse_command(std::string_view line, int number = 0);

struct Scenario {
  std::string name;        // file name without its ending
  std::string page;        // "05"
  int order = 0;           // among the films, from 1 on; 0: after those that have one
  std::string title = {};  // among the films; empty: its name
  std::vector<Command> commands;

  /// Throws kv::UserError, with file and line, for a file that cannot be read, is empty, does not
  /// begin with `page NN`, holds a NUL byte, or is larger than a megabyte.
  static Scenario load(const std::filesystem::path& file);
  static Scenario parse(std::string_view text, std::string name);
  /// The title, or the name in words.
  std::string shown_title() const;
  std::string text() const;
};

/// The scenarios that ship with the project, in order: those of lessons, then those of simt/.
std::vector<std::filesystem::path> shipped_scenarios(const std::filesystem::path& project);

}  // namespace viz
