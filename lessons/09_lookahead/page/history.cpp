#include "picture.h"

namespace lesson09 {
namespace {

constexpr Span kCounted{0.65f, 0.95f};  // in the motion of a pass

}  // namespace

/// Draws a line for each of the last passes, and for the one that is composed.
void Picture::draw_passes() {
  const Place& at = areas_.passes;
  viz::heading(scene_, "passes", {at.x, at.y, at.w, kHeading}, "pass by pass: rows, tokens");
  const float pitch = std::clamp(0.085f * at.h, 19.0f, 30.0f);
  const auto fit = static_cast<size_t>(std::max(1.0f, (at.h - kHeading - 4) / pitch));
  const size_t total = page_.passes_.size() + (now_.composed ? 1 : 0);
  float y = at.y + kHeading + 4;
  for (size_t i = total - std::min(total, fit); i < total; ++i) {
    const bool has_run = i < page_.passes_.size();
    draw_pass(has_run ? page_.passes_[i] : page_.parts_, static_cast<int>(i) + 1, has_run,
              {at.x, y, at.w, pitch - 4});
    y += pitch;
  }
}

/// Draws the rows of a pass; a guess is dashed until it is judged.
void Picture::draw_pass(const std::vector<Part>& parts, int number, bool has_run, const Place& at) {
  viz::Bar bar{.id = fmt::format("pass {}", number),
               .name = std::to_string(number),
               .name_width = 24,
               .total_width = 30};
  int units = 0, drawn = 0;
  for (const Part& part : parts) {
    const std::string id = bar.id + "/" + part.name, count = std::to_string(part.num_rows);
    bar.parts.push_back(
        {.id = id,
         .size = std::min(part.num_rows, 2),
         .state = has_run ? State::kInUse : State::kReserved,
         .hue = part.hue,
         .tooltip = fmt::format("{} of {}", kv::count_of(part.num_rows, "row"), part.name),
         .text = part.num_rows > 1 ? count : ""});
    for (int i = 0; i < part.num_guesses(); ++i) {
      bar.parts.push_back({.id = fmt::format("{}/guess {}", id, i),
                           .size = 1,
                           .state = !has_run            ? State::kFree
                                    : i < part.accepted ? State::kFound
                                                        : State::kEvicted,
                           .hue = part.hue,
                           .tooltip = page_.word(part.guesses[static_cast<size_t>(i)])});
    }
    units += std::min(part.num_rows, 2) + part.num_guesses();
    drawn += part.drawn;
  }
  if (has_run) bar.total = fmt::format("+{}", drawn);
  const auto fit = static_cast<int>((at.w - bar.name_width - bar.total_width) / at.h);
  viz::bar(scene_, bar, at, std::max(units, fit), ran_ || guessed_ ? kCounted : Span{});
}

/// Draws the same tokens in passes with guesses, and in passes without.
void Picture::draw_times() {
  const Place& at = areas_.times;
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "tokens drawn, a box for each pass");
  viz::Bar with{.id = "with", .name = "with guesses"}, without{.id = "without", .name = "without"};
  const int hue = now_.asked.size() == 1 ? now_.asked.begin()->hue : -1;
  const auto add = [&](viz::Bar& bar, int gain) {
    const size_t i = bar.parts.size();
    bar.parts.push_back(
        {.id = fmt::format("{} {}", bar.id, i),
         .size = gain,
         .hue = hue,
         .tooltip = fmt::format("pass {}: {}", i + 1, kv::count_of(gain, "token"))});
  };
  for (const auto& parts : page_.passes_) {
    int gain = 0;
    for (const Part& part : parts) gain += part.drawn;
    add(with, gain);
  }
  for (const int gain : page_.without_->gains) add(without, gain);
  int most = 8;
  for (const Asked& asked : now_.asked) most += asked.max_answer;
  const float h = (at.h - kHeading - 2) / 2;
  float y = at.y + kHeading + 2;
  for (viz::Bar* const bar : {&with, &without}) {
    bar->total = kv::count_of(std::ssize(bar->parts), "pass");
    viz::bar(scene_, *bar, {at.x, y, at.w, h - 3}, most, ran_ ? kCounted : Span{});
    y += h;
  }
}

}  // namespace lesson09
