#include "common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace kv {

size_t display_width(std::string_view text) {
  // Every byte but a continuation byte (10xxxxxx) starts a code point.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::add(std::vector<std::string> row) {
  row.resize(rows_.front().size());
  rows_.push_back(std::move(row));
}

namespace {

using Row = std::vector<std::string>;

/// A line may end at text[i]: at a space, but not in an indentation or between a number and its
/// unit.
bool may_break(std::string_view text, size_t i) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return text[i] == ' ' && i > text.find_first_not_of(' ') && i + 1 < text.size() &&
         (!is_digit(text[i - 1]) || is_digit(text[i + 1]));
}

/// `text` in lines of at most `width` columns; a line of one word may be longer.
std::vector<std::string> lines_of(std::string_view text, size_t width) {
  std::vector<std::string> lines{""};
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = begin;
    while (end < text.size() && !may_break(text, end)) ++end;
    const std::string_view word = text.substr(begin, end - begin);
    std::string& line = lines.back();
    if (begin == 0) {
      line = word;
    } else if (display_width(line) + 1 + display_width(word) <= width) {
      line.append(1, ' ').append(word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

/// Width of the longest word, in columns.
size_t narrowest(std::string_view text) {
  size_t longest = 0;
  for (const std::string& word : lines_of(text, 0))
    longest = std::max(longest, display_width(word));
  return longest;
}

/// The width of each column, and the spaces between two.
struct Layout {
  std::vector<size_t> width;
  size_t gap = 2;
};

/// Narrows the widest column again and again until the table fits `columns`, but no column below
/// its `least`. Returns false if the table does not fit then.
bool shrink(Layout& layout, const std::vector<size_t>& least, size_t columns) {
  std::vector<size_t>& width = layout.width;
  while (std::accumulate(width.begin(), width.end(), layout.gap * (width.size() - 1)) > columns) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < width.size(); ++c) {
      if (width[c] > least[c] && (!widest || width[c] > *widest)) widest = &width[c];
    }
    if (!widest) return false;
    --*widest;
  }
  return true;
}

Layout layout_of(const std::vector<Row>& rows, size_t columns) {
  const size_t count = rows.front().size();
  Layout layout{.width = std::vector<size_t>(count)};
  std::vector<size_t> one_line_cells(count), least(count);
  for (size_t c = 0; c < count; ++c) {
    for (const Row& row : rows) {
      const size_t whole = display_width(row[c]), word = narrowest(row[c]);
      layout.width[c] = std::max(layout.width[c], whole);
      one_line_cells[c] = std::max(one_line_cells[c], &row == &rows.front() ? word : whole);
      least[c] = std::max(least[c], word);
    }
  }
  if (shrink(layout, one_line_cells, columns)) return layout;
  layout.gap = 1;
  shrink(layout, least, columns);
  return layout;
}

void add_line(std::string& text, const Layout& layout, const Row& cells) {
  for (size_t c = 0; c < cells.size(); ++c) {
    const std::string padding(layout.width[c] - display_width(cells[c]), ' ');
    text += c == 0 ? cells[c] + padding : std::string(layout.gap, ' ') + padding + cells[c];
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

/// Adds a row, whose cells may take several lines. A header's cells end on its last line; the cells
/// of other rows begin on their first.
void add_row(std::string& text, const Layout& layout, const Row& row, bool is_header) {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t c = 0; c < row.size(); ++c) {
    cells.push_back(lines_of(row[c], layout.width[c]));
    height = std::max(height, cells[c].size());
  }
  for (auto& lines : cells) {
    lines.insert(is_header ? lines.begin() : lines.end(), height - lines.size(), "");
  }
  for (size_t i = 0; i < height; ++i) {
    Row line;
    for (const auto& lines : cells) line.push_back(lines[i]);
    add_line(text, layout, line);
  }
}

}  // namespace

std::string Table::to_string(int columns) const {
  const Layout layout = layout_of(rows_, static_cast<size_t>(std::max(columns, 1)));
  std::string text;
  add_row(text, layout, rows_.front(), true);
  Row rule;
  for (const size_t width : layout.width) rule.push_back(std::string(width, '-'));
  add_line(text, layout, rule);
  for (size_t r = 1; r < rows_.size(); ++r) add_row(text, layout, rows_[r], false);
  return text;
}

std::string human_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  int64_t size = 1;
  while (unit + 1 < std::size(kUnits) && bytes >= size * 1024) {
    size *= 1024;
    ++unit;
  }
  if (bytes % size == 0) return fmt::format("{} {}", bytes / size, kUnits[unit]);
  const double value = static_cast<double>(bytes) / static_cast<double>(size);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first_digit = number < 0 ? 1 : 0;
  for (size_t left = digits.size(); left > first_digit + 3;) {
    left -= 3;
    digits.insert(left, 1, ',');
  }
  return digits;
}

std::string count_of(int64_t count, std::string_view thing) {
  const bool hisses = thing.ends_with('s') || thing.ends_with("ch");
  const char* const ending = count == 1 ? "" : hisses ? "es" : "s";
  return fmt::format("{} {}{}", with_commas(count), thing, ending);
}

std::string percent(double part, double whole) {
  if (!(whole > 0)) return "-";
  return fmt::format("{:.1f} %", 100.0 * part / whole);
}

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

std::string bar(double value, double largest, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(largest > 0) || !(value > 0)) return "";
  const auto eighths = static_cast<int>(std::lround(8 * width * std::min(value / largest, 1.0)));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

}  // namespace kv
