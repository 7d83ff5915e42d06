#include "simt/page/picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "common/table.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/text_room.h"

namespace viz {
namespace {

constexpr Span kTold{0, 0.1f}, kAsk{0.1f, 0.45f}, kMove{0.5f, 1};

bool has(LaneMask mask, int lane) { return (mask >> lane & 1) != 0; }

Type dim(float size = 12, Align align = Align::kLeft) {
  return {.size = size, .paint = {Ink::kDim}, .align = align};
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

int64_t wanted_of(const std::vector<Sector>& sectors) {
  int64_t wanted = 0;
  for (const Sector& sector : sectors) wanted += sector.num_wanted();
  return wanted;
}

/// Draws bytes that a lane wants: plain.
Shape& wanted(Shape& box, bool followed) {
  box.fill = paint(Ink::kText, 0.3f);
  return box.edged(paint(followed ? Ink::kMark : Ink::kText, followed ? 1.0f : 0.7f),
                   followed ? 2.0f : 1.0f);
}

/// Draws bytes that are moved in vain: hatched.
Shape& in_vain(Shape& box) { return dress(box, State::kReserved).edged(paint(Ink::kDim), 1); }

/// One request: the lanes in a row, and what they touch below.
class Request {
 public:
  Request(Scene& scene, const WarpView& view, const Place& at)
      : scene_(scene),
        view_(view),
        line_(view.traffic->lines.at(static_cast<size_t>(view.line))),
        request_(line_.shown.at(static_cast<size_t>(view.request))),
        at_(at),
        names_(scene.room().w <= kTextWidth ? 51 : 58),
        lane_h_(std::clamp(0.09f * at.h, 20.0f, 40.0f)) {}

  void draw() {
    draw_lanes();
    line_.shared ? draw_banks() : draw_sectors();
  }

 private:
  float pitch() const { return (at_.w - names_) / kLanes; }
  float lane_x(int lane) const { return at_.x + names_ + static_cast<float>(lane) * pitch(); }
  bool follows(LaneMask mask) const { return view_.followed >= 0 && has(mask, view_.followed); }
  void name(const std::string& text, float y, float h) {
    scene_.label("name " + text, {at_.x, y, names_ - 4, h}, text, dim()).during(kTold);
  }
  /// A number in a cell, if it is not too narrow for two digits. In a text every second of these.
  void number(const std::string& id, const Place& at, int value, const Type& type) {
    if (is_in_text(scene_.room()) && value > 9 && value % 2 != 0) return;
    if (at.w >= 15 && at.h >= 12)
      scene_.label(id, at, std::to_string(value), type, 7).during(kTold);
  }

  void draw_lanes() {
    name("lanes", at_.y, lane_h_);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t byte = request_.at[static_cast<size_t>(lane)];
      const Place at{lane_x(lane), at_.y, pitch() - 2, lane_h_};
      const bool followed = lane == view_.followed;
      Shape& box = scene_.box(fmt::format("lane {}", lane), at, {});
      dress(box, byte < 0 ? State::kFree : State::kInUse).edged(paint(Ink::kDim), 1.2f);
      box.tip(byte < 0 ? fmt::format("lane {} takes no part", lane)
                       : fmt::format("lane {}: bytes {} to {}", lane, kv::with_commas(byte),
                                     kv::with_commas(byte + line_.bytes - 1)));
      box.runs(followed ? "unfollow" : fmt::format("follow {}", lane));
      number(box.id + "/number", at, lane, {.size = 12, .align = Align::kCentre});
      if (!followed) continue;
      scene_.box("followed", at.inset(-2), {}, paint(Ink::kMark)).on_top().thickness = 2.5f;
    }
  }

  /// From every lane of the mask to a point below.
  void wires(LaneMask lanes, float x, float y, Span when) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!has(lanes, lane)) continue;
      const bool followed = lane == view_.followed;
      const float strength = view_.followed < 0 ? 0.7f : 0.25f;
      scene_
          .line(fmt::format("wire {}/{}", lane, wires_[static_cast<size_t>(lane)]++),
                lane_x(lane) + pitch() / 2 - 1, at_.y + lane_h_, x, y,
                followed ? paint(Ink::kMark) : paint(Ink::kDim, strength), followed ? 2.5f : 1.2f)
          .during(when);
    }
  }

  void draw_sectors();
  void draw_sector(const Sector& sector, const Place& at);
  void draw_sum(const std::vector<Sector>& sectors, const Place& at);
  void draw_banks();
  void draw_pass(const BankPass& pass, size_t index, float y, float h, Span when);

  Scene& scene_;
  const WarpView& view_;
  const TrafficLine& line_;
  const WarpRequest& request_;
  Place at_;
  float names_;  // points, left of the picture
  float lane_h_;
  std::array<int, kLanes> wires_{};  // of each lane, so far
};

/// One sector: a run of bytes that the same lanes want is one piece, to which they have their
/// wires.
void Request::draw_sector(const Sector& sector, const Place& at) {
  const std::string id = fmt::format("sector {}", sector.number);
  LaneMask all = 0;
  for (const LaneMask mask : sector.wanted_by) all |= mask;
  const int64_t first = sector.number * kSectorBytes;
  Shape& box = scene_.box(id, at, {}, paint(Ink::kDim));
  box.during(kAsk).radius = 0;
  box.tip(fmt::format("bytes {} to {}\n{} of 32 wanted, by {}", kv::with_commas(first),
                      kv::with_commas(first + kSectorBytes - 1), sector.num_wanted(),
                      lanes_text(all)));
  if (view_.fresh) {  // all of it is moved: up to the warp, or down from it
    const Place warp{at.x, at_.y + lane_h_ + 4, at.w, at.h};
    Shape ghost{.id = "moved " + id, .at = line_.store ? warp : at};
    wanted(ghost, false).radius = 0;
    scene_.ghost(ghost, line_.store ? at : warp, kMove);
  }
  for (int begin = 0, end = 0; begin < kSectorBytes; begin = end) {
    const LaneMask lanes = sector.wanted_by[static_cast<size_t>(begin)];
    while (end < kSectorBytes && sector.wanted_by[static_cast<size_t>(end)] == lanes) ++end;
    const auto x = [&](int byte) { return at.x + at.w * static_cast<float>(byte) / kSectorBytes; };
    const Place piece{x(begin), at.y, x(end) - x(begin), at.h};
    Shape& bytes = scene_.box(fmt::format("{}/{}", id, begin), piece, {});
    lanes != 0 ? wanted(bytes, follows(lanes)) : in_vain(bytes);
    bytes.during(kAsk).radius = 0;
    wires(lanes, piece.middle_x(), at.y, kAsk);
  }
}

void Request::draw_sectors() {
  const std::vector<Sector> sectors = sectors_of(request_, line_.bytes);
  const auto begins = [&](size_t i) {
    return i == 0 || sectors[i].number != sectors[i - 1].number + 1;
  };
  int gaps = -1;
  for (size_t i = 0; i < sectors.size(); ++i) gaps += begins(i);
  const float room = at_.w - names_;
  const float gap = std::min(12.0f, room / 3 / static_cast<float>(std::max(gaps, 1)));
  const float w = std::min(
      220.0f, (room - gap * static_cast<float>(gaps)) / static_cast<float>(sectors.size()));
  Place at{at_.x + names_, at_.y + 0.5f * at_.h, w - 1, std::clamp(0.18f * at_.h, 20.0f, 90.0f)};
  name("sectors", at.y, at.h);
  name("byte", at.bottom() + 2, 16);
  float free_from = 0;  // for labels
  for (size_t i = 0; i < sectors.size(); ++i) {
    if (i > 0) at.x += w + (begins(i) ? gap : 0);
    draw_sector(sectors[i], at);
    const std::string byte = kv::with_commas(sectors[i].number * kSectorBytes);
    const float wide = text_width(byte, 12) + 1;
    if (!begins(i) || at.x < free_from || at.x + wide > at_.right()) continue;
    scene_.label(fmt::format("byte {}", byte), {at.x, at.bottom() + 2, wide, 16}, byte, dim());
    free_from = at.x + wide + 10;
  }
  draw_sum(sectors, {at_.x, at.bottom() + 26, at_.w, at_.bottom() - at.bottom() - 26});
}

/// Draws the bytes wanted and the bytes moved, to one scale for all requests.
void Request::draw_sum(const std::vector<Sector>& sectors, const Place& at) {
  const int64_t moved = std::ssize(sectors) * kSectorBytes, wants = wanted_of(sectors);
  const float whole = static_cast<float>(std::max<int64_t>(moved, kLanes * kSectorBytes));
  const float h = std::min(at.h / 2, 36.0f), room = at.w - names_ - 60;
  const auto bar = [&](const std::string& id, int64_t bytes, float y) {
    name(id, y, h - 4);
    const float w = room * static_cast<float>(bytes) / whole;
    const float plain = room * static_cast<float>(wants) / whole;
    wanted(scene_.box(id, {at.x + names_, y, plain, h - 4}, {}), false).during(kMove).radius = 2;
    if (bytes > wants) {
      in_vain(scene_.box(id + " in vain", {at.x + names_ + plain, y, w - plain, h - 4}, {}))
          .during(kMove)
          .radius = 2;
    }
    scene_
        .label(id + "/bytes", {at.x + names_ + w + 8, y, 60, h - 4}, kv::with_commas(bytes),
               {.size = std::min(14.0f, h)})
        .during(kMove);
  };
  bar("wanted", wants, at.y);
  bar("moved", moved, at.y + h);
}

void Request::draw_pass(const BankPass& pass, size_t index, float y, float h, Span when) {
  const float tall = h - std::min(2.0f, h / 5);
  scene_
      .box(fmt::format("pass {}", index + 1), {lane_x(0), y, at_.w - names_, tall}, {},
           paint(Ink::kLine))
      .during(when)
      .radius = 2;
  for (int bank = 0; bank < kBanks; ++bank) {
    const LaneMask lanes = pass.wanted_by[static_cast<size_t>(bank)];
    if (lanes == 0) continue;
    const Place at{lane_x(bank), y, pitch() - 2, tall};
    const std::string id = fmt::format("pass {}/{}", index + 1, bank);
    Shape& cell = scene_.box(id, at, {});
    cell.during(when).radius = std::min(2.0f, h / 6);
    const int64_t word = pass.word[static_cast<size_t>(bank)];
    wanted(cell, follows(lanes))
        .tip(fmt::format("bank {}, pass {}: bytes {} to {}\nfor {}", bank, index + 1,
                         kv::with_commas(word * kBankBytes),
                         kv::with_commas(word * kBankBytes + kBankBytes - 1), lanes_text(lanes)));
    if (std::popcount(lanes) == 1) {
      number(id + "/lane", at, std::countr_zero(lanes), {.size = 11, .align = Align::kCentre});
    }
    wires(lanes, at.middle_x(), at.y, when);
  }
}

/// A row for each pass: they are served one after the other.
void Request::draw_banks() {
  const std::vector<BankPass> passes = passes_of(request_, line_.bytes);
  const auto count = static_cast<float>(passes.size());
  const float highest = at_.y + lane_h_ + std::max(0.16f * at_.h, 24.0f);
  const float most = is_in_text(scene_.room()) ? 40.0f : std::max(40.0f, 0.25f * at_.h);
  const float h = std::min((at_.bottom() - highest - 22) / count, most);
  // In a window the wires take what the passes leave.
  const float top =
      is_in_text(scene_.room()) ? highest : std::max(highest, at_.bottom() - 22 - count * h);
  const float below = top + count * h + 4;  // clear of the last pass's name
  name("banks", below, 16);
  for (int bank = 0; bank < kBanks; ++bank) {
    number(fmt::format("bank {}", bank), {lane_x(bank), below, pitch() - 2, 16}, bank,
           dim(12, Align::kCentre));
  }
  const auto nth = static_cast<size_t>(std::ceil(14 / h));
  for (size_t p = 0; p < passes.size(); ++p) {
    const float y = top + static_cast<float>(p) * h, begin = static_cast<float>(p) / count;
    draw_pass(passes[p], p, y, h, view_.fresh ? Span{begin, std::min(begin + 0.2f, 1.0f)} : Span{});
    if ((p + 1) % nth == 0 || nth == 1) name(fmt::format("pass {}", p + 1), y + h / 2 - 7, 14);
  }
}

/// The share of what is moved that was wanted.
float share_of(const TrafficLine& line) {
  const auto moved = static_cast<double>(line.moved);
  return static_cast<float>(line.shared
                                ? static_cast<double>(line.least) / moved
                                : static_cast<double>(line.wanted) / (moved * kSectorBytes));
}

/// A row for each line of source; if there are too many, those around the current one.
class Lines {
 public:
  Lines(Scene& scene, const WarpView& view, const Place& at, int rows)
      : scene_(scene), view_(view), at_(at), rows_(rows) {}

  void draw() {
    const auto count = static_cast<int>(view_.traffic->lines.size());
    const int first = std::clamp(view_.line - rows_ / 2, 0, std::max(count - rows_, 0));
    cells("lines", at_.y, "", "requests", "each moves, at least", "of it wanted", dim());
    for (int i = first; i < std::min(first + rows_, count); ++i) {
      row(i, at_.y + kRow * static_cast<float>(i - first + 1));
    }
  }

  static constexpr float kRow = 24;

 private:
  // Where the code ends and where the bar begins, as shares of the width.
  float code() const { return narrow_ ? 0.68f : is_in_text(scene_.room()) ? 0.4f : 0.48f; }
  float bar() const { return narrow_ ? 0.7f : is_in_text(scene_.room()) ? 0.76f : 0.8f; }
  void cells(const std::string& id, float y, const std::string& text, const std::string& requests,
             const std::string& each, const std::string& share, Type type) {
    const float w = at_.w;
    if (!text.empty()) {
      scene_.label(id + "/text", {at_.x + 6, y, code() * w, kRow - 2}, text, type, 7);
    }
    type.align = Align::kRight;
    const auto cell = [&](const char* name, float from, float to, const std::string& words) {
      scene_.label(id + name, {at_.x + from * w, y, (to - from) * w, kRow - 2}, words, type, 7);
    };
    if (!narrow_) {  // there the counters have them
      cell("/requests", code() + 0.01f, is_in_text(scene_.room()) ? 0.5f : 0.57f, requests);
      cell("/each", is_in_text(scene_.room()) ? 0.51f : 0.58f, bar() - 0.02f, each);
    }
    cell("/share", bar() + 0.09f, 0.995f, share);
  }
  void row(int index, float y) {
    const TrafficLine& line = view_.traffic->lines[static_cast<size_t>(index)];
    const std::string id = fmt::format("line {}", index + 1);
    const bool current = index == view_.line;
    Shape& box =
        scene_.box(id, {at_.x, y, at_.w, kRow - 2}, paint(current ? Ink::kCell : Ink::kPanel),
                   paint(current ? Ink::kText : Ink::kLine));
    box.tip(line.kernel + "\n" + line.file + "\n" + line.text);
    if (!current) box.runs(id);
    const auto requests = static_cast<double>(line.requests);
    cells(
        id, y, shown(line), kv::with_commas(line.requests),
        fmt::format("{:.1f} {}, {:.1f}", static_cast<double>(line.moved) / requests,
                    line.shared ? "passes" : "sectors", static_cast<double>(line.least) / requests),
        fmt::format("{:.1f} %", 100 * static_cast<double>(share_of(line))), {.size = 12});
    level(scene_, id + "/level", {at_.x + bar() * at_.w, y + 7, 0.08f * at_.w, 8}, share_of(line),
          paint(Ink::kDim));
  }
  /// Place, operation, and as much of the code as fits.
  std::string shown(const TrafficLine& line) const {
    std::string text = fmt::format("{}  {} {}  {}", line.place(), line.store ? "store" : "load",
                                   line.bytes, line.text);
    const float room = code() * at_.w;
    if (text_width(text, 12) <= room) return text;
    while (text_width(text, 12) + text_width(" ..", 12) > room) text.pop_back();
    return text + " ..";
  }

  Scene& scene_;
  const WarpView& view_;
  Place at_;
  int rows_;
  const bool narrow_ = is_narrow(scene_.room());
};

}  // namespace

std::string sum_of(const TrafficLine& line, const WarpRequest& request) {
  const auto lanes = kv::count_of(std::popcount(active_lanes(request)), "lane");
  if (line.shared) {
    const auto passes = std::ssize(passes_of(request, line.bytes));
    return fmt::format("{} of {}, {}", lanes, kv::count_of(line.bytes, "byte"),
                       kv::count_of(passes, "pass"));
  }
  const std::vector<Sector> sectors = sectors_of(request, line.bytes);
  return fmt::format("{} want {} of the {} in {}", lanes, kv::count_of(wanted_of(sectors), "byte"),
                     kv::with_commas(std::ssize(sectors) * kSectorBytes),
                     kv::count_of(std::ssize(sectors), "sector"));
}

Scene warp_scene(const Room& room, const WarpView& view) {
  if (view.traffic->lines.empty()) return empty_scene(room, "No recording is open.");
  Scene scene(room);
  const TrafficLine& line = view.traffic->lines.at(static_cast<size_t>(view.line));
  const WarpRequest& request = line.shown.at(static_cast<size_t>(view.request));
  if (view.fresh) scene.lasts(1.5f);
  scene.label("code", {0, 0, room.w, 24}, line.text, {.size = 16}, 7).during(kTold);
  scene
      .label("what", {0, 24, room.w, 18},
             fmt::format(
                 "{} in {} memory{}: {}", line.operation(), line.shared ? "shared" : "global",
                 room.w <= kTextWidth
                     ? ""
                     : fmt::format("; request {} of {} kept, CTA ({}), warp {}", view.request + 1,
                                   line.shown.size(), fmt::join(request.block, ", "), request.warp),
                 sum_of(line, request)),
             dim(13), 7)
      .during(kTold);
  const int most = std::max(2, static_cast<int>(0.3f * room.h / Lines::kRow) - 1);
  const int rows = std::min(most, static_cast<int>(view.traffic->lines.size()));
  const float list = Lines::kRow * static_cast<float>(rows + 1);
  const float legend = is_narrow(room) ? 44 : 20;
  Request(scene, view, {0, 54, room.w, room.h - 54 - legend - list - 14}).draw();
  viz::legend(scene, {0, room.h - list - legend - 4, room.w, legend},
              {{State::kInUse, "wanted", kNoHue},
               {State::kReserved, "moved in vain"},
               {State::kFree, "lane without a part"},
               {.state = State::kInUse, .name = "followed", .hue = kNoHue, .edge = Ink::kMark}});
  if (Shape* const sample = scene.find("legend/0")) wanted(*sample, false);
  if (Shape* const sample = scene.find("legend/3")) wanted(*sample, true);
  Lines(scene, view, {0, room.h - list, room.w, list}, rows).draw();
  return scene;
}

}  // namespace viz
