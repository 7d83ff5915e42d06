#include "programs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/table.h"

namespace kv {
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
  const int bar_width = std::clamp(output_columns() - 36, 1, 40);
  std::string text = fmt::format("{:>9}  {:>11}  {:>10}\n", "pass", "rows", "time");
  for (const ChartLine& line : lines) {
    text += fmt::format("{:>9}  {:>11}  {:>7.2f} ms  {}\n", line.passes, line.rows,
                        1e3 * line.seconds, bar(line.seconds, slowest, bar_width));
  }
  return text;
}

int64_t rows_without_cache(std::span<const Request> requests, const GenerateResult& result) {
  int64_t rows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto p = static_cast<int64_t>(requests[i].prompt.size());
    const auto g = static_cast<int64_t>(result.completions[i].tokens.size());
    rows += g * p + g * (g - 1) / 2;
  }
  return rows;
}

std::string counters_text(const EngineCounters& counters, int64_t generated_tokens) {
  const auto tokens = static_cast<double>(generated_tokens);
  const double rate = counters.seconds > 0 ? tokens / counters.seconds : 0;
  std::string text =
      fmt::format("{} in {:.2f} s ({:.1f} tokens/s), {}\n", count_of(generated_tokens, "token"),
                  counters.seconds, rate, count_of(counters.passes, "forward pass"));
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
