#pragma once

// Output of programs for people, and the line that tells the progress of slow work.

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "common/terminal.h"

namespace kv {

/// Standard output is a pipe whose reader has left, as in `program | head`. A program ends then and
/// says nothing.
struct ClosedPipe {};

/// After a failed write to standard output: throws ClosedPipe, or UserError (a full disk).
[[noreturn]] void standard_output_failed();

/// Standard output, or standard error if standard output carries JSON. print() is for sentences: it
/// breaks lines that the terminal has no room for. write() is for text as it is. A write that fails
/// throws, as standard_output_failed() does.
class Console {
 public:
  /// `json_file`: what --json names; "-" is standard output.
  explicit Console(std::string_view json_file = {}) : file_(json_file == "-" ? stderr : stdout) {}

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    write(wrapped(fmt::format(format, std::forward<Args>(args)...), output_columns()));
  }
  void write(std::string_view text) const;
  void flush() const;

 private:
  std::FILE* file_;
};

/// True if standard error is a terminal that can rewrite a line, which TERM=dumb cannot.
bool stderr_is_terminal();

/// Shows on standard error how much is done, once two seconds have passed. A terminal gets one line
/// that is rewritten; a file or pipe gets a line for each quarter.
class ProgressLine {
 public:
  /// `doing`: "loading the model". `counted`: "requests"; empty for bytes.
  explicit ProgressLine(std::string doing, std::string counted = {})
      : doing_(std::move(doing)), counted_(std::move(counted)) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(int64_t done, int64_t all);

 private:
  using Clock = std::chrono::steady_clock;
  std::string doing_, counted_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_;
  bool terminal_ = stderr_is_terminal();
  int quarter_ = 0;
  bool open_ = false;  // the line on the terminal has no newline yet
};

}  // namespace kv
