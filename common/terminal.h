#pragma once

// A terminal's width, and its colours.

#include <string>
#include <string_view>

namespace kv {

/// Columns of the terminal that standard output is; for a file or a pipe COLUMNS of the
/// environment, or INT_MAX without it.
int output_columns();

/// True if standard error is a terminal and NO_COLOR is not set (https://no-color.org).
bool stderr_has_colour();

/// `text` with each line longer than `columns` broken at spaces. The rest of a line is indented as
/// its last column, which two or more spaces precede. A word is never broken.
std::string wrapped(std::string_view text, int columns);

}  // namespace kv
