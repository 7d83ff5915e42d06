#include "common/program/cli_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>

#include "common/base/error.h"

namespace kv {

void Console::write(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    user_error("cannot write to standard output: {}", std::strerror(errno));
  }
}

void Console::flush() const {
  if (std::fflush(file_) != 0) {
    user_error("cannot write to standard output: {}", std::strerror(errno));
  }
}

bool Console::is_terminal() const { return isatty(fileno(file_)) == 1; }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

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

std::string percent(double part, double whole) {
  if (!(whole > 0)) return "-";
  return fmt::format("{:.1f} %", 100.0 * part / whole);
}

std::string bar(double value, double largest, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(largest > 0) || !(value > 0)) return "";
  const auto eighths = static_cast<int>(std::lround(8 * width * std::min(value / largest, 1.0)));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

namespace {

/// A run of passes as one line of a chart.
struct ChartLine {
  std::string passes, rows;
  double seconds = 0;  // median
};

ChartLine chart_line(std::span<const PassCost> passes, size_t begin, size_t end) {
  ChartLine line{fmt::format("{}", begin + 1), with_commas(passes[begin].rows)};
  if (end - begin > 1) line.passes += fmt::format("-{}", end);
  if (passes[begin].rows != passes[end - 1].rows) {
    line.rows += "-" + with_commas(passes[end - 1].rows);
  }
  std::vector<double> times;
  for (size_t i = begin; i < end; ++i) times.push_back(passes[i].seconds);
  std::sort(times.begin(), times.end());
  line.seconds = times[times.size() / 2];
  return line;
}

}  // namespace

std::string passes_chart(std::span<const PassCost> passes, int max_lines) {
  // The first pass is the prompts' and has a line of its own.
  const auto lines_left = static_cast<size_t>(std::max(max_lines - 1, 1));
  const size_t per_line = (passes.size() + lines_left - 1) / lines_left;
  std::vector<ChartLine> lines;
  for (size_t begin = 0, end = 1; begin < passes.size(); begin = end, end += per_line) {
    lines.push_back(chart_line(passes, begin, std::min(end, passes.size())));
  }
  double slowest = 0;
  for (const ChartLine& line : lines) slowest = std::max(slowest, line.seconds);
  std::string text = fmt::format("{:>9}  {:>11}  {:>10}\n", "pass", "rows", "time");
  for (const ChartLine& line : lines) {
    text += fmt::format("{:>9}  {:>11}  {:>7.2f} ms  {}\n", line.passes, line.rows,
                        1e3 * line.seconds, bar(line.seconds, slowest, 40));
  }
  return text;
}

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

std::string counters_text(const EngineCounters& counters, int64_t generated_tokens) {
  const auto tokens = static_cast<double>(generated_tokens);
  const double rate = counters.seconds > 0 ? tokens / counters.seconds : 0;
  std::string text = fmt::format("{} tokens in {:.2f} s ({:.1f} tokens/s), {} forward passes\n",
                                 with_commas(generated_tokens), counters.seconds, rate,
                                 with_commas(counters.passes));
  text += fmt::format("rows of K and V computed  {}\n", with_commas(counters.kv_rows_computed));
  const int64_t reserved = counters.kv_bytes_reserved;
  if (reserved == 0) return text + "KV memory                 none is kept\n";
  text += fmt::format("KV memory                 {} reserved, {} used, {} wasted\n",
                      human_bytes(reserved), human_bytes(counters.kv_bytes_used),
                      percent(static_cast<double>(reserved - counters.kv_bytes_used),
                              static_cast<double>(reserved)));
  return text;
}

}  // namespace kv
