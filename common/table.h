#pragma once

// Tables of text, and numbers as people read them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/terminal.h"

namespace kv {

/// Characters a terminal shows for UTF-8 text (one column per code point).
size_t display_width(std::string_view text);

/// Rows of text in aligned columns: the first column to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  /// Header, a rule, the rows; each line ends with a newline and no line with a space. In a table
  /// wider than `columns` the header takes several lines; if that is not enough, columns are one
  /// space apart and cells take several lines, too. A word is never broken.
  std::string to_string(int columns = output_columns()) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

/// "112 KiB", "448 MiB", "1.5 GiB": without a decimal point exactly when nothing is rounded off.
std::string human_bytes(int64_t bytes);
/// "1,234,567".
std::string with_commas(int64_t number);
/// "1 block", "2,048 blocks"; "1 pass", "2 passes"; "3 batches".
std::string count_of(int64_t count, std::string_view thing);
/// "45.1 %"; "-" for a part of nothing.
std::string percent(double part, double whole);
/// 16 hexadecimal digits.
std::string hex64(uint64_t value);
/// A bar of at most `width` columns, in steps of an eighth of a column.
std::string bar(double value, double largest, int width);

}  // namespace kv
