#include "common/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/error.h"
#include "common/table.h"

namespace kv {

void standard_output_failed() {
  if (errno == EPIPE) throw ClosedPipe();
  user_error("cannot write to standard output: {}", std::strerror(errno));
}

void Console::write(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) standard_output_failed();
}

void Console::flush() const {
  if (std::fflush(file_) != 0) standard_output_failed();
}

bool stderr_is_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

void ProgressLine::show(int64_t done, int64_t all) {
  using namespace std::chrono_literals;
  const auto now = Clock::now();
  if (now - start_ < 2s || all <= 0) return;
  const int quarter = static_cast<int>(4 * done / all);
  const bool due = terminal_ ? now - last_ > 100ms || done == all : quarter > quarter_;
  if (!due) return;
  last_ = now;
  quarter_ = quarter;
  open_ = terminal_ && done < all;
  const std::string text =
      counted_.empty() ? fmt::format("{} of {}", human_bytes(done), human_bytes(all))
                       : fmt::format("{} of {} {}", with_commas(done), with_commas(all), counted_);
  std::fprintf(stderr, "%s%s: %s%s", terminal_ ? "\r\x1b[K" : "", doing_.c_str(), text.c_str(),
               open_ ? "" : "\n");
}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

}  // namespace kv
