#pragma once

// Errors of this project, and how programs report them.
//
// Three kinds of error, three ways out:
//   * the user's input is wrong (a file, a flag, a prompt)  -> UserError, exit code 2, one line;
//   * the device failed (none there, out of memory, a fault) -> DeviceError, exit code 2, one line;
//   * the program's own rule is broken (a double free)       -> std::logic_error, exit code 1.
// A message names the thing, the value found, the value wanted, and what to do.

#ifndef __CUDACC__
#include <fmt/format.h>  // its compile-time checks do not get through nvcc
#endif

#include <stdexcept>
#include <string>
#include <utility>

namespace kv {

/// Something the user gave is wrong. Nothing is half done when it is thrown.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device, its driver or its memory failed.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

#ifndef __CUDACC__
/// Throws UserError with a formatted message.
template <typename... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}
#endif

}  // namespace kv
