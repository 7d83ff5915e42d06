#include "viz/warp/draw.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "common/base/table.h"
#include "viz/drawing.h"
#include "viz/palette.h"

namespace viz {
namespace {

constexpr float kLabel = 52, kLaneHeight = 24, kAir = 64;  // points

bool has(LaneMask mask, int lane) { return (mask >> lane & 1) != 0; }

/// The text, or nothing: half of a number is another number.
std::string whole(const std::string& text, float room) {
  return fitting(text, room) == text ? text : "";
}

/// From dark to light along the warp: position is all that a lane's colour says.
Colour of_lane(int lane, uint32_t alpha = 255) {
  const auto mix = [&](uint32_t from, uint32_t to) {
    return from + (to - from) * static_cast<uint32_t>(lane) / (kLanes - 1);
  };
  return rgb(mix(0x2E, 0xD0) << 16 | mix(0x78, 0xEE) << 8 | mix(0xA6, 0xFF), alpha);
}

/// "lane 5"; "lanes 0 to 7"; "lanes 0, 4, 8".
std::string lanes_text(LaneMask mask) {
  std::vector<int> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (has(mask, lane)) lanes.push_back(lane);
  }
  if (lanes.empty()) return "no lane";
  if (lanes.size() == 1) return fmt::format("lane {}", lanes[0]);
  const bool is_run = lanes.back() - lanes.front() + 1 == std::ssize(lanes);
  return is_run ? fmt::format("lanes {} to {}", lanes.front(), lanes.back())
                : fmt::format("lanes {}", fmt::join(lanes, ", "));
}

/// Where the lanes stand; what they touch is drawn below.
struct Lanes {
  const Canvas& c;
  const WarpRequest& request;
  int followed;

  float pitch() const { return (c.room - kLabel * c.s) / kLanes; }
  float left() const { return c.origin.x + kLabel * c.s; }
  ImVec2 corner(int lane) const {
    return {left() + static_cast<float>(lane) * pitch(), c.origin.y};
  }
  ImVec2 foot(int lane) const {
    return {corner(lane).x + pitch() / 2, c.origin.y + kLaneHeight * c.s};
  }
  float below() const { return c.origin.y + (kLaneHeight + kAir) * c.s; }

  void label(float y, const std::string& text) const {
    text_at(c.list, c.origin.x, y + 4 * c.s, kDim, text);
  }
  void line(int lane, const ImVec2& to) const {
    const bool stands_out = lane == followed;
    const uint32_t alpha = followed < 0 ? 170 : stands_out ? 255 : 40;
    c.list.AddLine(foot(lane), to, stands_out ? kMark : of_lane(lane, alpha),
                   (stands_out ? 2.5f : 1.2f) * c.s);
  }
  /// Draws them, and returns the one under the mouse.
  std::optional<int> draw(Ui& ui, const TrafficLine& of) const {
    label(c.origin.y, "lanes");
    std::optional<int> hovered;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t at = request.at[static_cast<size_t>(lane)];
      const ImVec2 a = corner(lane);
      const ImVec2 b(a.x + pitch() - 2 * c.s, a.y + kLaneHeight * c.s);
      if (at >= 0) {
        c.list.AddRectFilled(a, b, of_lane(lane), 3 * c.s);
      } else {
        c.list.AddRect(a, b, kLine, 3 * c.s);
      }
      if (lane == followed) c.list.AddRect(a, b, kMark, 3 * c.s, 0, 2 * c.s);
      text_at(c.list, a.x + 4 * c.s, a.y + 4 * c.s,
              at < 0      ? kDim
              : lane < 12 ? kMark
                          : kGround,
              whole(std::to_string(lane), pitch() - 5 * c.s));
      if (!ui.region(fmt::format("lane {}", lane), a.x, a.y, b.x - a.x, b.y - a.y)) continue;
      hovered = lane;
      ui.tooltip(at < 0 ? fmt::format("lane {} takes no part", lane)
                        : fmt::format("lane {}: bytes {} to {}", lane, kv::with_commas(at),
                                      kv::with_commas(at + of.bytes - 1)));
    }
    return hovered;
  }
};

/// Where each sector stands: neighbours in memory touch each other, others have a gap.
struct SectorRow {
  SectorRow(const std::vector<Sector>& sectors, const Lanes& lanes) {
    const float s = lanes.c.s, room = lanes.c.room - kLabel * s;
    int gaps = 0;
    for (size_t i = 1; i < sectors.size(); ++i) {
      gaps += sectors[i].number != sectors[i - 1].number + 1;
    }
    const auto count = static_cast<float>(sectors.size());
    const float gap = std::min(12 * s, room / 3 / static_cast<float>(std::max(gaps, 1)));
    width = std::min(200 * s, (room - gap * static_cast<float>(gaps)) / count);
    float x = lanes.left();
    for (size_t i = 0; i < sectors.size(); ++i) {
      const bool touches = i > 0 && sectors[i].number == sectors[i - 1].number + 1;
      if (i > 0) x += width + (touches ? 0 : gap);
      at.push_back(x);
    }
  }
  float byte(size_t sector, int i) const {
    return at[sector] + (width - 1) * static_cast<float>(i) / kSectorBytes;
  }
  float width = 0;
  std::vector<float> at;
};

/// One sector: the bytes that lanes want in the lanes' colours, the others empty. A run of bytes
/// with the same lanes is one piece, to which these lanes draw their lines.
void draw_sector(Ui& ui, const Sector& sector, const SectorRow& row, size_t i, const Lanes& lanes) {
  const auto& [s, origin, room, list] = lanes.c;
  const float y = lanes.below(), h = 26 * s;
  const ImVec2 a(row.at[i], y), b(row.at[i] + row.width - 1, y + h);
  list.AddRectFilled(a, b, kCellFree);
  for (int begin = 0, end = 0; begin < kSectorBytes; begin = end) {
    const LaneMask wanted = sector.wanted_by[static_cast<size_t>(begin)];
    while (end < kSectorBytes && sector.wanted_by[static_cast<size_t>(end)] == wanted) ++end;
    if (wanted == 0) continue;
    const float x0 = row.byte(i, begin), x1 = row.byte(i, end);
    const bool is_followed = lanes.followed >= 0 && has(wanted, lanes.followed);
    list.AddRectFilled(ImVec2(x0, y), ImVec2(std::max(x1 - 0.6f * s, x0 + 1), y + h),
                       is_followed ? kMark : of_lane(std::countr_zero(wanted)));
    for (int lane = 0; lane < kLanes; ++lane) {
      if (has(wanted, lane)) lanes.line(lane, {(x0 + x1) / 2, y});
    }
  }
  list.AddRect(a, b, kLine);
  if (!mouse_in(a, b)) return;
  LaneMask all = 0;
  for (const LaneMask mask : sector.wanted_by) all |= mask;
  const int64_t first = sector.number * kSectorBytes;
  ui.tooltip(fmt::format("bytes {} to {}\n{} of 32 wanted, by {}", kv::with_commas(first),
                         kv::with_commas(first + kSectorBytes - 1), sector.num_wanted(),
                         lanes_text(all)));
}

/// Returns the height.
float draw_sectors(Ui& ui, const TrafficLine& line, const Lanes& lanes) {
  const auto& [s, origin, room, list] = lanes.c;
  const std::vector<Sector> sectors = sectors_of(lanes.request, line.bytes);
  const SectorRow row(sectors, lanes);
  lanes.label(lanes.below(), "sectors");
  const float under = lanes.below() + 30 * s;
  float free_from = origin.x;  // for labels
  for (size_t i = 0; i < sectors.size(); ++i) {
    draw_sector(ui, sectors[i], row, i, lanes);
    const bool begins = i == 0 || sectors[i].number != sectors[i - 1].number + 1;
    const std::string place = kv::with_commas(sectors[i].number * kSectorBytes);
    if (!begins || row.at[i] < free_from) continue;
    text_at(list, row.at[i], under, kDim, place);
    free_from = row.at[i] + ImGui::CalcTextSize(place.c_str()).x + 10 * s;
  }
  lanes.label(under - 4 * s, "byte");
  return under + 22 * s - origin.y;
}

float draw_banks(Ui& ui, const TrafficLine& line, const Lanes& lanes) {
  const auto& [s, origin, room, list] = lanes.c;
  const std::vector<BankPass> passes = passes_of(lanes.request, line.bytes);
  const float h = (passes.size() <= 8 ? 26 : 18) * s, top = lanes.below() + 20 * s;
  lanes.label(lanes.below() - 4 * s, "banks");
  for (int bank = 0; bank < kBanks; ++bank) {
    text_at(list, lanes.corner(bank).x + 4 * s, lanes.below(), kDim,
            whole(std::to_string(bank), lanes.pitch() - 5 * s));
  }
  for (size_t p = 0; p < passes.size(); ++p) {
    const float y = top + static_cast<float>(p) * h;
    text_at(list, origin.x, y + (h - 18 * s) / 2, kDim, fmt::format("pass {}", p + 1));
    for (int bank = 0; bank < kBanks; ++bank) {
      const LaneMask wanted = passes[p].wanted_by[static_cast<size_t>(bank)];
      const ImVec2 a(lanes.corner(bank).x, y), b(a.x + lanes.pitch() - 2 * s, y + h - 2 * s);
      const bool is_followed = lanes.followed >= 0 && has(wanted, lanes.followed);
      list.AddRectFilled(a, b,
                         wanted == 0   ? kCellFree
                         : is_followed ? kMark
                                       : of_lane(std::countr_zero(wanted)),
                         2 * s);
      if (std::popcount(wanted) == 1 && h > 20 * s) {
        const int lane = std::countr_zero(wanted);
        text_at(list, a.x + 4 * s, y + 4 * s, lane < 12 && !is_followed ? kMark : kGround,
                whole(std::to_string(lane), lanes.pitch() - 5 * s));
      }
      if (mouse_in(a, b) && wanted != 0) {
        const int64_t word = passes[p].word[static_cast<size_t>(bank)];
        ui.tooltip(fmt::format("bank {}, pass {}: bytes {} to {}\nfor {}", bank, p + 1,
                               kv::with_commas(word * kBankBytes),
                               kv::with_commas(word * kBankBytes + kBankBytes - 1),
                               lanes_text(wanted)));
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        if (has(wanted, lane)) lanes.line(lane, {(a.x + b.x) / 2, y});
      }
    }
  }
  return top + static_cast<float>(passes.size()) * h + 6 * s - origin.y;
}

/// The share of what is moved that was wanted.
double share_of(const TrafficLine& line) {
  const auto moved = static_cast<double>(line.moved);
  return line.shared ? static_cast<double>(line.least) / moved
                     : static_cast<double>(line.wanted) / (moved * kSectorBytes);
}

}  // namespace

std::optional<int> warp_picture(Ui& ui, const std::string& name, const TrafficLine& line,
                                const WarpRequest& request, int followed) {
  const Canvas c = canvas(ui);
  const Lanes lanes{c, request, followed};
  const float height = line.shared ? draw_banks(ui, line, lanes) : draw_sectors(ui, line, lanes);
  take_room(ui, name, c.origin, c.room, height);
  return lanes.draw(ui, line);
}

std::optional<int> source_lines(Ui& ui, const std::string& name, const Traffic& traffic,
                                int current) {
  const auto [s, origin, room, list] = canvas(ui);
  const float h = 26 * s, right = origin.x + room;
  const float bar = 70 * s, share_at = right - 60 * s, each_at = share_at - bar - 16 * s;
  const float requests_at = each_at - 150 * s, text_from = origin.x + 190 * s;
  text_right(list, requests_at, origin.y, kDim, "requests");
  text_right(list, each_at, origin.y, kDim, "each moves, at least");
  text_right(list, right, origin.y, kDim, "of it wanted");
  const float top = origin.y + h;
  take_room(ui, name, origin, room, h * static_cast<float>(traffic.lines.size() + 1));
  std::optional<int> hovered;
  for (size_t i = 0; i < traffic.lines.size(); ++i) {
    const TrafficLine& line = traffic.lines[i];
    const auto index = static_cast<int>(i);
    const float y = top + static_cast<float>(i) * h;
    if (scrolled_away(list, y, h)) continue;
    const ImVec2 a(origin.x, y), b(right, y + h - 2 * s);
    if (ui.region(fmt::format("line {}", i + 1), a.x, a.y, room, h - 2 * s)) hovered = index;
    if (index == current) list.AddRectFilled(a, b, rgb(0x31536E), 4 * s);
    if (index == hovered) list.AddRect(a, b, kLine, 4 * s);
    text_at(list, a.x + 6 * s, y + 4 * s, kText, fitting(line.place(), 120 * s));
    text_at(list, a.x + 130 * s, y + 4 * s, kDim,
            fmt::format("{} {}", line.store ? "store" : "load", line.bytes));
    const auto requests = static_cast<double>(line.requests);
    const char* const unit = line.shared ? "passes" : "sectors";
    text_right(list, requests_at, y + 4 * s, kText, kv::with_commas(line.requests));
    text_right(list, each_at, y + 4 * s, kText,
               fmt::format("{:.1f} {}, {:.1f}", static_cast<double>(line.moved) / requests, unit,
                           static_cast<double>(line.least) / requests));
    const float x = each_at + 16 * s, share = static_cast<float>(share_of(line));
    list.AddRectFilled(ImVec2(x, y + 8 * s), ImVec2(x + bar, y + 16 * s), kCellFree, 2 * s);
    list.AddRectFilled(ImVec2(x, y + 8 * s), ImVec2(x + bar * share, y + 16 * s), kAccent, 2 * s);
    text_right(list, right - 6 * s, y + 4 * s, kText,
               fmt::format("{:.1f} %", 100 * share_of(line)));
    text_at(list, text_from, y + 4 * s, kDim, fitting(line.text, requests_at - text_from - 80 * s));
    if (index == hovered) ui.tooltip(line.kernel + "\n" + line.file + "\n" + line.text);
  }
  return hovered;
}

}  // namespace viz
