#pragma once

// What this test program tells the system to do with its files. (file_crash_test.cpp stands between
// the two.)

#include <cstdint>
#include <functional>

#include "block_files.h"

namespace lesson12_test {

struct Change {
  enum class Kind { kWrite, kResize, kSync } kind = Kind::kSync;
  int64_t at = 0;  // of a write; the new size
  Bytes bytes = {};
};
/// Called before it is done, by the thread that does it. Empty: nobody wants to know.
extern std::function<void(const Change&)> on_file_change;

}  // namespace lesson12_test
