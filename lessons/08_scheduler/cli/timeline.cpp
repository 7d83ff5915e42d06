#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace lesson08 {

void Timeline::pass(const Scheduler& scheduler, std::span<const Chunk> chunks) {
  const size_t column = used_.size();
  for (auto& row : rows_) row.resize(column + 1, Mark::kAbsent);
  for (const int64_t id : scheduler.waiting()) {
    const bool back = scheduler.request(id).num_preemptions > 0;
    rows_[id][column] = back ? Mark::kPreempted : Mark::kWaiting;
  }
  for (const Chunk& chunk : chunks) {
    const ScheduledRequest& request = scheduler.request(chunk.id);
    const bool decode = chunk.num_tokens == 1 && request.num_computed >= request.num_prompt;
    rows_[chunk.id][column] = decode ? Mark::kDecode : Mark::kPrefill;
  }
  const lesson06::CachePool& pool = scheduler.manager().pool();
  used_.push_back(static_cast<double>(pool.num_used()) / static_cast<double>(pool.num_blocks()));
}

std::string Timeline::to_svg() const {
  constexpr double kLeft = 52, kTop = 86, kWidth = 572, kRow = 12, kPool = 70;
  const auto columns = std::max<size_t>(used_.size(), 1);
  const double w = kWidth / static_cast<double>(columns);
  const double bottom = kTop + kRow * static_cast<double>(rows_.size());
  const double height = bottom + kPool + 70;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 640 {0:.0f}' width='640' "
      "height='{0:.0f}' font-family='system-ui, sans-serif'>\n"
      "<style>@media(prefers-color-scheme:dark){{rect[fill='#f7f9fb']{{fill:#14171c}}"
      "rect[fill='#cbd2d9']{{fill:#56606c}}rect[fill='#0072b2']{{fill:#2b8bc9}}"
      "path{{fill:#1d4f72}}text{{fill:#e8ecf1}}line{{stroke:#a7b1bd}}}}</style>\n"
      "<rect width='640' height='{0:.0f}' rx='14' fill='#f7f9fb'/>\n"
      "<text x='24' y='34' font-size='17' font-weight='700' fill='#1f2933'>Requests over {1} "
      "passes</text>\n",
      height, used_.size());
  constexpr const char* kColours[] = {"", "#cbd2d9", "#d55e00", "#0072b2", "#cc79a7"};
  constexpr const char* kNames[] = {"", "waits", "prompt", "decodes", "preempted"};
  for (int mark = 1; mark <= 4; ++mark) {
    svg += fmt::format(
        "<rect x='{}' y='48' width='14' height='14' fill='{}'/><text x='{}' y='60' "
        "font-size='13' fill='#52606d'>{}</text>\n",
        24 + 110 * mark - 110, kColours[mark], 44 + 110 * mark - 110, kNames[mark]);
  }
  const auto text = [&](double x, double y, const char* anchor, const std::string& words) {
    svg += fmt::format(
        "<text x='{:.1f}' y='{:.1f}' font-size='12' fill='#52606d' text-anchor='{}'>{}</text>\n", x,
        y, anchor, words);
  };
  text(8, kTop - 6, "start", "request");
  for (size_t r = 0; r < rows_.size(); ++r) {
    const double y = kTop + kRow * static_cast<double>(r);
    text(kLeft - 8, y + 9.5, "end", std::to_string(r));
    for (size_t c = 0; c < rows_[r].size();) {  // runs of one mark
      size_t end = c;
      while (end < rows_[r].size() && rows_[r][end] == rows_[r][c]) ++end;
      if (rows_[r][c] != Mark::kAbsent) {
        svg +=
            fmt::format("<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.0f}' fill='{}'/>\n",
                        kLeft + w * static_cast<double>(c), y, w * static_cast<double>(end - c),
                        kRow - 2, kColours[static_cast<int>(rows_[r][c])]);
      }
      c = end;
    }
  }
  const double base = bottom + kPool + 16;
  text(kLeft - 8, base - kPool + 4, "end", "100 %");
  text(kLeft - 8, base - kPool / 2 - 3, "end", "pool");
  text(kLeft - 8, base - kPool / 2 + 12, "end", "in use");
  text(kLeft - 8, base + 4, "end", "0");
  for (size_t c = 0; c + 10 < columns; c += 50) {
    text(kLeft + w * static_cast<double>(c), base + 18, c > 0 ? "middle" : "start",
         std::to_string(c));
  }
  text(kLeft + kWidth, base + 34, "end", "pass");
  svg += fmt::format("<path d='M{:.2f} {:.2f}", kLeft, base);
  for (size_t c = 0; c < used_.size(); ++c) {
    const double y = base - kPool * used_[c];
    svg += fmt::format(" L{:.2f} {:.2f} L{:.2f} {:.2f}", kLeft + w * static_cast<double>(c), y,
                       kLeft + w * static_cast<double>(c + 1), y);
  }
  svg += fmt::format(
      " L{0:.2f} {1:.2f} Z' fill='#8cc5e8'/>\n<line x1='{2:.0f}' y1='{1:.2f}' x2='{0:.0f}' "
      "y2='{1:.2f}' stroke='#52606d'/>\n<line x1='{2:.0f}' y1='{3:.2f}' x2='{0:.0f}' y2='{3:.2f}' "
      "stroke='#52606d'/>\n</svg>\n",
      kLeft + kWidth, base, kLeft, base - kPool);
  return svg;
}

}  // namespace lesson08
