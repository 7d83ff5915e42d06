#pragma once

// The changes that this test program makes to its files. file_crash_test.cpp replaces the system's
// functions to see them.

#include <cstdint>
#include <functional>

#include "block_files.h"

namespace lesson12_test {

struct Change {
  enum class Kind { kWrite, kResize, kSync } kind = Kind::kSync;
  int64_t at = 0;  // of a write; the new size
  Bytes bytes = {};
};
/// Called before each change, by the thread that makes it. May be empty.
extern std::function<void(const Change&)> on_file_change;
/// Set by on_file_change: this write fails, as on a disk with an error.
extern bool file_change_fails;

}  // namespace lesson12_test
