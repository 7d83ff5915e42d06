#include "picture.h"

namespace lesson08 {

/// The tokens of the last pass, of those that a pass may have.
void Picture::draw_pass() {
  const Place& at = areas_.pass;
  const int passes = now_.num_passes, budget = page_.settings_.budget;
  viz::heading(scene_, "pass", {at.x, at.y, at.w, kHeading},
               fmt::format("{}: {} of {} tokens",
                           passes > 0 ? fmt::format("pass {}", passes) : "no pass yet",
                           viz::num_rows(now_.last), budget));
  const Place room{at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2};
  scene_.box("budget", room, paint(Ink::kCell), paint(Ink::kLine));
  viz::Bar bar{.id = fmt::format("pass {}", passes), .name_width = 0, .total_width = 0};
  for (const Chunk& chunk : now_.last.chunks) {
    const Seen& seen = now_.of(chunk.id);
    const bool decodes = seen.marks.back() == State::kDecode;
    bar.parts.push_back(
        {.id = bar.id + "/" + seen.name,
         .size = chunk.num_tokens,
         .state = *seen.marks.back(),
         .hue = seen.hue,
         .tooltip = fmt::format("{} of {}", kv::count_of(chunk.num_tokens, "token"), seen.name),
         .text = decodes ? seen.name : fmt::format("{} {}", seen.name, chunk.num_tokens)});
  }
  viz::bar(scene_, bar, room, budget, acts_.runs);
  for (const Chunk& chunk : now_.last.chunks) {
    const std::string& name = now_.of(chunk.id).name;
    for (const char* part : {"", "/text"}) {
      viz::Shape* const shape = scene_.find(bar.id + "/" + name + part);
      if (shape != nullptr) shape->from = "request " + name;
    }
  }
}

/// A row for each request, a column for each pass.
void Picture::draw_times() {
  const Place& at = areas_.times;
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "pass by pass");
  const float top = at.y + kHeading + 2, left = viz::names_width(now_.seen);
  const Place bars{at.x + left, top, at.w - left, at.bottom() - top};
  const float pitch = bars.h / static_cast<float>(std::max<size_t>(now_.seen.size(), 3));
  const auto total = static_cast<size_t>(now_.num_passes);
  viz::pass_rows(scene_, now_.seen, viz::pass_columns(bars, total, 24, 96), left, top,
                 std::min(pitch, std::max(30.0f, 0.11f * at.h)), acts_.grows);
}

}  // namespace lesson08
