#pragma once

// Runs the course's programs as a user runs them, and says what came of it.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_dir.h"

namespace kvtest {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Outcome {
  int code = -1;  // -1: a signal ended it
  std::string out, err;
};

/// Runs a shell command in which $B is the folder of the programs, $S the project's, and $T one
/// that is gone afterwards. None of them needs quotes: without IFS, what a variable holds is one
/// word.
inline Outcome shell(const std::string& command, const std::string& input = {}) {
  const TempDir dir;
  std::ofstream(dir.path() / "stdin", std::ios::binary) << input;
  ::setenv("B", std::filesystem::read_symlink("/proc/self/exe").parent_path().c_str(), 1);
  ::setenv("S", KV_SOURCE_DIR, 1);
  ::setenv("T", dir.path().c_str(), 1);
  ::unsetenv("COLUMNS");  // tables at full width
  const std::string all = "IFS=; ( " + command + " ) <$T/stdin >$T/stdout 2>$T/stderr";
  const int status = std::system(all.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(dir.path() / "stdout"),
          text_of(dir.path() / "stderr")};
}

/// Wrong input: exit code 2, one line on standard error that begins with "error: " and says `what`.
inline void check_refused(const Outcome& outcome, const std::string& what) {
  INFO(outcome.err, "  should contain  ", what);
  CHECK(outcome.code == 2);
  CHECK(outcome.err.starts_with("error: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.find(what) != std::string::npos);
}

}  // namespace kvtest
