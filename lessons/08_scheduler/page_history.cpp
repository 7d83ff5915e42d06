#include "page_picture.h"

namespace lesson08 {

/// The tokens of the last pass, of those that a pass may have.
void Picture::draw_pass() {
  const Place& at = areas_.pass;
  viz::heading(
      scene_, "pass", {at.x, at.y, at.w, kHeading},
      fmt::format("{}: {} of {} tokens",
                  page_.num_passes_ > 0 ? fmt::format("pass {}", page_.num_passes_) : "no pass yet",
                  page_.num_rows(), page_.settings_.budget));
  const Place bar{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  scene_.box("budget", bar, paint(Ink::kCell), paint(Ink::kLine));
  const float each = bar.w / static_cast<float>(page_.settings_.budget);
  float x = bar.x;
  for (size_t i = 0; i < page_.last_.chunks.size(); ++i) {
    const Chunk& chunk = page_.last_.chunks[i];
    const Seen& seen = page_.seen_of(chunk.id);
    const std::string id = fmt::format("pass {}/{}", page_.num_passes_, seen.name);
    const Place piece{x, bar.y, each * static_cast<float>(chunk.num_tokens), bar.h};
    x = piece.right();
    const bool decodes = seen.marks.back() == kDecodes;
    const Span one = staggered(acts_.runs, i, page_.last_.chunks.size());
    dress(scene_.box(id, piece, {}), decodes ? State::kDecode : State::kPrompt, seen.hue)
        .comes_from("request " + seen.name, one)
        .tip(fmt::format("{} of {}", kv::count_of(chunk.num_tokens, "token"), seen.name));
    std::string text = decodes ? seen.name : fmt::format("{} {}", seen.name, chunk.num_tokens);
    if (viz::text_width(text, 9) > piece.w - 2) text = seen.name;
    if (viz::text_width(text, 9) > piece.w - 2) continue;
    scene_.label(id + "/name", piece, text, {.align = Align::kCentre})
        .comes_from("request " + seen.name, one);
  }
}

/// A row for each request, a column for each pass, and how full the pool was.
void Picture::draw_times() {
  const Place& at = areas_.times;
  const auto total = static_cast<size_t>(page_.num_passes_);
  size_t columns = 24;
  while (columns < total && columns < 96) columns *= 2;
  const size_t first = total > columns ? total - columns : 0;
  float left = 0;
  for (const Seen& seen : page_.seen_) left = std::max(left, viz::text_width(seen.name, 12) + 6);
  left = std::max(left, viz::text_width("pool", 12) + 6);
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "pass by pass");
  const float top = at.y + kHeading + 2, column = (at.w - left) / static_cast<float>(columns);
  const float fill = std::clamp(0.3f * at.h, 12.0f, std::max(70.0f, 0.22f * at.h));
  const float pitch = std::min(
      (at.bottom() - fill - 4 - top) / static_cast<float>(std::max<size_t>(page_.seen_.size(), 3)),
      std::max(30.0f, 0.11f * at.h));
  float y = top;
  for (const Seen& seen : page_.seen_) {
    if (pitch >= 10) {
      scene_.label(seen.name + "/row", {at.x, y, left, pitch}, seen.name,
                   {.size = std::min(12.0f, 0.8f * pitch)});
    }
    draw_row(seen, {at.x + left, y, at.w - left, pitch - 2}, first, column);
    y += pitch;
  }
  for (size_t pass = 1; pass < total - first && column >= 5; ++pass) {
    const float x = at.x + left + column * static_cast<float>(pass) - 0.5f;
    scene_.line(fmt::format("column {}", pass), x, top, x, y, paint(Ink::kGround), 1);
  }
  const Place pool{at.x + left, at.bottom() - fill, at.w - left, fill};
  scene_.label("fill/name", {at.x, pool.y, left, fill}, "pool", {.size = 12, .paint = {Ink::kDim}});
  scene_.box("fill", pool, paint(Ink::kPanel), paint(Ink::kLine)).radius = 0;
  for (size_t pass = first; pass < total; ++pass) {
    const float h = fill * static_cast<float>(page_.used_[pass]) /
                    static_cast<float>(page_.pool().num_blocks());
    const Place bar{pool.x + column * static_cast<float>(pass - first), pool.bottom() - h,
                    std::max(column - 1, 1.0f), h};
    scene_.box(fmt::format("fill {}", pass), bar, paint(Ink::kDim))
        .tip(fmt::format("pass {}: {} of {} in use", pass + 1, page_.used_[pass],
                         page_.pool().num_blocks()))
        .during(acts_.grows)
        .radius = 1;
  }
}

/// Passes alike are one bar, with lines between the columns.
void Picture::draw_row(const Seen& seen, const Place& at, size_t first, float column) {
  size_t run = 0;
  for (size_t begin = 0, end = 0; begin < seen.marks.size(); begin = end, ++run) {
    const int mark = seen.marks[begin];
    while (end < seen.marks.size() && seen.marks[end] == mark) ++end;
    if (mark == kAbsent || mark == kEnded || end <= first) continue;
    const auto from = static_cast<float>(std::max(begin, first) - first);
    const auto to = static_cast<float>(end - first);
    Place bar{at.x + column * from, at.y, column * (to - from) - 1, at.h};
    if (mark == kWaits) bar = {bar.x, bar.middle_y() - 1.5f, bar.w, 3};
    viz::Shape& box = scene_.box(fmt::format("{}/run {}", seen.name, run), bar, soft(seen.hue));
    if (mark != kWaits) {
      dress(box,
            mark == kPrompt    ? State::kPrompt
            : mark == kDecodes ? State::kDecode
                               : State::kPreempted,
            seen.hue);
    }
    box.tip(fmt::format("{}, pass {} to {}", seen.name, begin + 1, end))
        .during(acts_.grows)
        .radius = 2;
    if (mark == kDecodes) box.fill = full(seen.hue);
  }
}

}  // namespace lesson08
