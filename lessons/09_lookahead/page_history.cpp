#include <numeric>

#include "page_picture.h"

namespace lesson09 {
namespace {

constexpr Span kCounted{0.65f, 0.95f};  // in the motion of a pass

}  // namespace

/// A line for each of the last passes, and for the one that is composed.
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

/// Its rows; a guess is dashed until it is judged.
void Picture::draw_pass(const std::vector<Part>& parts, int number, bool has_run, const Place& at) {
  constexpr float kNumber = 24, kGain = 30;
  const std::string id = fmt::format("pass {}", number);
  scene_.label(id, {at.x, at.y, kNumber - 2, at.h}, std::to_string(number),
               {.size = 12, .paint = {Ink::kDim}});
  int units = 0, drawn = 0;
  for (const Part& part : parts) {
    units += std::min(part.num_rows, 2) + static_cast<int>(part.guesses.size());
    drawn += part.drawn;
  }
  const float unit =
      std::min((at.w - kNumber - kGain) / static_cast<float>(std::max(units, 1)), at.h);
  float x = at.x + kNumber;
  const auto cell = [&](const std::string& name, int wide) -> viz::Shape& {
    const Place place{x, at.y, unit * static_cast<float>(wide) - 2, at.h};
    x += unit * static_cast<float>(wide);
    return scene_.box(name, place, {});
  };
  const Span when = ran_ || guessed_ ? kCounted : Span{};
  for (const Part& part : parts) {
    const std::string of = id + "/" + part.name;
    viz::Shape& rows = cell(of, std::min(part.num_rows, 2));
    dress(rows, has_run ? State::kInUse : State::kReserved, part.hue).during(when).radius = 2;
    rows.tip(fmt::format("{} of {}", kv::count_of(part.num_rows, "row"), part.name));
    const Place place = rows.at;
    const std::string count = std::to_string(part.num_rows);
    if (part.num_rows > 1 && viz::text_width(count, 9) <= place.w) {
      scene_.label(of + "/rows", place, count, {.size = 11, .align = Align::kCentre}).during(when);
    }
    for (int i = 0; i < std::ssize(part.guesses); ++i) {
      viz::Shape& guess = cell(fmt::format("{}/guess {}", of, i), 1);
      guess.tip(page_.word(part.guesses[static_cast<size_t>(i)]));
      if (!has_run) {
        guess.edged(full(part.hue), 1.5f).dashed_edge();
      } else {
        dress(guess, i < part.accepted ? State::kFound : State::kEvicted,
              i < part.accepted ? part.hue : -1);
      }
      guess.during(when).radius = 2;
    }
  }
  if (!has_run) return;
  scene_
      .label(id + "/gain", {at.right() - kGain, at.y, kGain, at.h}, fmt::format("+{}", drawn),
             {.size = 13, .align = Align::kRight})
      .during(when);
}

/// The same tokens in passes with guesses, and in passes without.
void Picture::draw_times() {
  const Place& at = areas_.times;
  viz::heading(scene_, "times", {at.x, at.y, at.w, kHeading}, "tokens drawn, a box for each pass");
  std::vector<int> gains;
  for (const auto& parts : page_.passes_) {
    int gain = 0;
    for (const Part& part : parts) gain += part.drawn;
    gains.push_back(gain);
  }
  const std::vector<int>& without = page_.told_without_.gains;
  int most = 8;
  for (const Asked& asked : now_.asked) most += asked.most_answer;
  most = std::max({most, std::accumulate(gains.begin(), gains.end(), 0),
                   std::accumulate(without.begin(), without.end(), 0)});
  const float h = (at.h - kHeading - 2) / 2;
  const int hue = now_.asked.size() == 1 ? now_.asked.begin()->hue : -1;
  draw_bar("with", {at.x, at.y + kHeading + 2, at.w, h - 3}, gains, most, hue);
  draw_bar("without", {at.x, at.y + kHeading + 2 + h, at.w, h - 3}, without, most, hue);
}

void Picture::draw_bar(const std::string& id, const Place& at, const std::vector<int>& gains,
                       int most, int hue) {
  constexpr float kName = 100, kCount = 76;
  scene_.label(id + "/name", {at.x, at.y, kName, at.h}, id == "with" ? "with guesses" : "without",
               {.size = 13});
  const float each = (at.w - kName - kCount) / static_cast<float>(most);
  float x = at.x + kName;
  for (size_t i = 0; i < gains.size(); ++i) {
    const float w = each * static_cast<float>(gains[i]);
    if (gains[i] == 0) continue;
    scene_
        .box(fmt::format("{} {}", id, i), {x, at.y, std::max(w - 2, 1.0f), at.h},
             hue >= 0 ? soft(hue) : paint(Ink::kCell), hue >= 0 ? full(hue) : paint(Ink::kDim))
        .tip(fmt::format("pass {}: {}", i + 1, kv::count_of(gains[i], "token")))
        .during(ran_ ? kCounted : Span{})
        .radius = 2;
    x += w;
  }
  scene_.label(id + "/count", {at.right() - kCount, at.y, kCount, at.h},
               kv::count_of(std::ssize(gains), "pass"), {.size = 13, .align = Align::kRight});
}

}  // namespace lesson09
