#pragma once

// A line to type a page's commands into, as scenarios write them: Tab completes, Up and Down bring
// back what was typed before.

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace viz {

/// Commands with their explanations, as Page::help() has them.
using Help = std::vector<std::pair<std::string, std::string>>;

/// The entries of which what is typed may become one.
Help matching(const Help& help, const std::string& typed);
/// Returns the text after Tab: longer, as far as all entries that match agree.
std::string completed(const Help& help, const std::string& typed);

class ImGuiUi;

class CommandLine {
 public:
  bool is_open() const { return open_; }
  /// Whether what is typed goes into it: some frames after it was opened, or Enter was pressed.
  bool listens() const { return listens_; }
  void open() { open_ = fresh_ = true, listens_ = false; }
  void close() { open_ = listens_ = false; }
  /// Draws the line. Returns the command when Enter was pressed, else nothing.
  std::string draw(ImGuiUi& ui, const Help& help);

 private:
  std::string field(const Help& help, float width);

  bool open_ = false, listens_ = false, fresh_ = false;  // fresh: the keyboard is not in it yet
  std::array<char, 512> typed_{};
  std::vector<std::string> before_;
  size_t shown_ = 0;  // of those, while Up and Down walk through them
};

}  // namespace viz
