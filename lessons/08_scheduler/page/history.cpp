#include "picture.h"

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
    const bool decodes = seen.marks.back() == State::kDecode;
    const Span one = viz::in_turn(acts_.runs, i, page_.last_.chunks.size());
    dress(scene_.box(id, piece, {}), decodes ? State::kDecode : State::kPrompt, seen.hue)
        .comes_from("request " + seen.name, one)
        .tip(fmt::format("{} of {}", kv::count_of(chunk.num_tokens, "token"), seen.name));
    std::string text = decodes ? seen.name : fmt::format("{} {}", seen.name, chunk.num_tokens);
    if (viz::text_width(text, 9) > piece.w - 2) text = seen.name;
    if (viz::text_width(text, 9) > piece.w - 2) continue;
    scene_.label(id + "/name", piece, text, {.align = viz::Align::kCentre})
        .comes_from("request " + seen.name, one);
  }
}

/// A row for each request, a column for each pass, and how full the pool was.
void Picture::draw_times() {
  const Place& at = areas_.times;
  float left = viz::text_width("pool", 12) + 6;
  for (const Seen& seen : page_.seen_) left = std::max(left, viz::text_width(seen.name, 12) + 6);
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "pass by pass");
  const float top = at.y + kHeading + 2;
  const float fill = std::clamp(0.3f * at.h, 12.0f, std::max(70.0f, 0.22f * at.h));
  const Place pool{at.x + left, at.bottom() - fill, at.w - left, fill};
  const viz::PassColumns columns =
      viz::pass_columns(pool, static_cast<size_t>(page_.num_passes_), 24, 96);
  const float pitch =
      std::min((pool.y - 4 - top) / static_cast<float>(std::max<size_t>(page_.seen_.size(), 3)),
               std::max(30.0f, 0.11f * at.h));
  float y = top;
  for (const Seen& seen : page_.seen_) {
    if (pitch >= 10) {
      scene_.label(seen.name + "/row", {at.x, y, left, pitch}, seen.name,
                   {.size = std::min(12.0f, 0.8f * pitch)});
    }
    viz::pass_row(scene_, seen, seen.marks, columns, y, pitch - 2, acts_.grows);
    y += pitch;
  }
  for (size_t pass = columns.first + 1; pass < columns.end && columns.w >= 5; ++pass) {
    const float x = columns.bar(pass, pass + 1, 0, 0).x - 0.5f;
    scene_.line(fmt::format("column {}", pass - columns.first), x, top, x, y, paint(Ink::kGround),
                1);
  }
  scene_.label("fill/name", {at.x, pool.y, left, fill}, "pool", {.size = 12, .paint = {Ink::kDim}});
  scene_.box("fill", pool, paint(Ink::kPanel), paint(Ink::kLine)).radius = 0;
  const int num_blocks = page_.pool().num_blocks();
  for (size_t pass = columns.first; pass < columns.end; ++pass) {
    const int used = page_.used_[pass];
    const float h = fill * static_cast<float>(used) / static_cast<float>(num_blocks);
    scene_
        .box(fmt::format("fill {}", pass), columns.bar(pass, pass + 1, pool.bottom() - h, h),
             paint(Ink::kDim))
        .tip(fmt::format("pass {}: {} of {} in use", pass + 1, used, num_blocks))
        .during(acts_.grows)
        .radius = 1;
  }
}

}  // namespace lesson08
