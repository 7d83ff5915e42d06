#include "common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
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

std::string Table::to_string() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> width(columns, 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns; ++c) width[c] = std::max(width[c], display_width(row[c]));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(width[c] - display_width(row[c]), ' ');
      line += c == 0 ? row[c] + padding : "  " + padding + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(rows_.front());
  std::vector<std::string> rule;
  for (const size_t w : width) rule.push_back(std::string(w, '-'));
  add_line(rule);
  for (size_t r = 1; r < rows_.size(); ++r) add_line(rows_[r]);
  return text;
}

std::string human_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
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
