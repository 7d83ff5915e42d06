#pragma once

// Start and end of a program.

#include <functional>

#include "programs/options.h"

namespace kv {

/// Exit codes of every program.
enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,  // one of our own rules is broken
  kExitUser = 2,      // wrong input, or the device failed; one line on standard error says what
  kExitInterrupted = 130,  // Ctrl-C
  kExitClosedPipe = 141,   // the reader of standard output has left; as if SIGPIPE had ended it
};

/// Parses the command line, runs the body, and returns the exit code: 2 for wrong options,
/// UserError and DeviceError, 1 for any other exception, 130 after Ctrl-C. Each error is one line
/// on standard error. A closed or full standard output is an error, too (2).
int run_main(CommandLine& command, int argc, char** argv, const std::function<void()>& body);

/// True after Ctrl-C. Programs finish what they print and return; a second Ctrl-C ends at once.
bool interrupted();

}  // namespace kv
