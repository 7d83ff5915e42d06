#include "programs/run_main.h"

#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "common/console.h"
#include "common/error.h"
#include "common/terminal.h"
#include "common/utf8.h"

namespace kv {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  g_interrupted = 1;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends the program at once
}

/// Prints the message as one line that a terminal can show. Returns `code`.
int report(std::string message, int code) {
  std::fflush(stdout);
  const bool red = stderr_has_colour();
  std::fprintf(stderr, "%serror:%s %s\n", red ? "\x1b[31m" : "", red ? "\x1b[m" : "",
               one_line(std::move(message)).c_str());
  return code;
}

}  // namespace

bool interrupted() { return g_interrupted != 0; }

int run_main(CommandLine& command, int argc, char** argv, const std::function<void()>& body) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write
  try {
    if (command.parse(argc, argv)) body();
    Console().flush();
  } catch (const ClosedPipe&) {
    return kExitClosedPipe;
  } catch (const UserError& error) {
    return report(error.what(), interrupted() ? kExitInterrupted : kExitUser);
  } catch (const DeviceError& error) {
    return report(error.what(), kExitUser);
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller model, fewer prompts, tokens or blocks", kExitUser);
  } catch (const std::exception& error) {
    return report(fmt::format("internal: {}", error.what()), kExitInternal);
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace kv
