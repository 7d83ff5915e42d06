#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "common/console.h"
#include "common/table.h"
#include "common/utf8.h"

namespace kv {

int output_columns() {
  if (isatty(STDOUT_FILENO) != 1) {
    const char* const given = std::getenv("COLUMNS");
    const int columns = given != nullptr ? std::atoi(given) : 0;
    return columns > 0 ? columns : INT_MAX;
  }
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool stderr_has_colour() {
  const char* const refused = std::getenv("NO_COLOR");
  return stderr_is_terminal() && (refused == nullptr || *refused == '\0');
}

std::string wrapped(std::string_view text, int columns) {
  const auto limit = static_cast<size_t>(std::max(columns, 20));
  std::string out;
  while (!text.empty()) {
    // A sentence may have the name of a file in it, and a name any character.
    const std::string shown = printable(text.substr(0, text.find('\n')));
    std::string_view line = shown;
    const bool ends = text.find('\n') != text.npos;
    text.remove_prefix(ends ? text.find('\n') + 1 : text.size());
    const size_t gap = line.rfind("  ");
    const size_t column = gap == line.npos || gap + 2 > limit / 2 ? 0 : gap + 2;
    for (size_t indent = 0; indent + display_width(line) > limit; indent = column) {
      size_t end = line.npos;  // of the part that fits
      for (size_t space = line.find(' ', indent == 0 ? column : 0);
           space != line.npos && (end == line.npos || indent + space <= limit);
           space = line.find(' ', space + 1)) {
        end = space;
      }
      if (end == line.npos) break;
      out.append(line.substr(0, end)).append(1, '\n').append(column, ' ');
      line.remove_prefix(end + 1);
    }
    out.append(line).append(ends ? 1 : 0, '\n');
  }
  return out;
}

}  // namespace kv
