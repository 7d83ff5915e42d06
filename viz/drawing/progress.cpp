#include "viz/drawing/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/text_room.h"

namespace viz {

void progress(Scene& scene, const SequenceView& request, const Progress& tokens, const Place& at,
              Span when, Span grows) {
  const int prompt = tokens.num_prompt;
  const float each = at.w / static_cast<float>(prompt + tokens.max_generated);
  const auto part = [&](int from, int to) {
    return Place{at.x + each * static_cast<float>(from), at.y,
                 each * static_cast<float>(std::max(to - from, 0)), at.h};
  };
  const std::string& name = request.name;
  scene.box(name + "/bar", at, paint(Ink::kGround, 0.6f)).during(when).radius = 2;
  scene.box(name + "/prompt", part(0, std::min(tokens.num_computed, prompt)), soft(request.hue))
      .patterned(Pattern::kLined)
      .during(grows)
      .radius = 2;
  scene.box(name + "/decode", part(prompt, tokens.num_computed), full(request.hue))
      .during(grows)
      .radius = 2;
  scene.box(name + "/known", part(0, prompt + tokens.num_generated), {})
      .edged(paint(Ink::kText, 0.6f), 1)
      .during(grows)
      .radius = 2;
}

void last_lines(Scene& scene, const std::string& id, const Place& at, const std::string& text,
                Span when) {
  const float size = readable(scene.room(), std::clamp(0.5f * at.h, 9.0f, 13.0f));
  const float pitch = 1.3f * size;
  const std::vector<std::string> lines = wrapped(text, size, at.w);
  const size_t most = std::max<size_t>(1, static_cast<size_t>(at.h / pitch));
  float y = at.y;
  for (size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i) {
    scene.label(fmt::format("{} {}", id, i), {at.x, y, at.w, pitch}, lines[i], {.size = size})
        .during(when);
    y += pitch;
  }
}

Place PassColumns::bar(size_t begin, size_t end_of_bar, float y, float h) const {
  const size_t from = std::max(begin, first);
  return {at.x + w * static_cast<float>(from - first), y,
          std::max(w * static_cast<float>(end_of_bar - from) - 1, 1.0f), h};
}

PassColumns pass_columns(const Place& at, size_t total, size_t min, size_t max) {
  size_t count = min;
  while (count < total && count < max) count *= 2;
  return {at, total > count ? total - count : 0, total, at.w / static_cast<float>(count)};
}

void pass_row(Scene& scene, const SequenceView& request, const PassMarks& marks,
              const PassColumns& columns, float y, float h, Span when) {
  size_t run = 0;
  for (size_t begin = 0, end = 0; begin < marks.size(); begin = end, ++run) {
    const std::optional<State> mark = marks[begin];
    while (end < marks.size() && marks[end] == mark) ++end;
    if (!mark || end <= columns.first) continue;
    const bool waits = *mark == State::kFree;
    const Place bar = columns.bar(begin, end, waits ? y + h / 2 - 1.5f : y, waits ? 3 : h);
    Shape& box = scene.box(fmt::format("{}/run {}", request.name, run), bar, soft(request.hue));
    if (!waits) dress(box, *mark, request.hue);
    if (*mark == State::kDecode) box.fill = full(request.hue);
    box.tip(fmt::format("{}, pass {} to {}", request.name, begin + 1, end)).during(when).radius = 2;
  }
}

}  // namespace viz
