#include "viz/side_scenes.h"

#include <algorithm>

namespace viz {
namespace {

constexpr int kColumns = 3;
constexpr float kRow = 44;

int count_shown(const Page& page) {
  const std::vector<Counter> all = page.counters();
  return static_cast<int>(
      std::ranges::count_if(all, [](const Counter& one) { return !one.label.empty(); }));
}

}  // namespace

Room figures_room(const Place& side, const Page& page) {
  const int rows = (count_shown(page) + kColumns - 1) / kColumns;
  return {side.w - 2 * kSidePad, kRow * static_cast<float>(rows)};
}

Scene figures_of(const Page& page, const Room& room) {
  Scene scene(room);
  const float w = room.w / kColumns;
  int index = 0;
  for (const Counter& counter : page.counters()) {
    if (counter.label.empty()) continue;
    const Place cell{w * static_cast<float>(index % kColumns),
                     kRow * static_cast<float>(index / kColumns), w - 4, kRow - 4};
    const std::string id = "counters/" + counter.label;
    scene.box(id, cell, {}).tip(counter.tooltip);
    scene
        .label(id + "/value", {cell.x, cell.y, cell.w, 22},
               counter.text.empty() ? std::to_string(counter.value) : counter.text, {.size = 18})
        .during({0.7f, 1});
    scene.label(id + "/label", {cell.x, cell.y + 22, cell.w, 16}, counter.label,
                {.size = 12, .paint = {Ink::kDim}});
    ++index;
  }
  return scene;
}

Scene sentence_of(const std::string& words, Ink ink, const Room& room) {
  Scene scene(room);
  const auto height = [&](float size) {
    return 1.4f * size * static_cast<float>(wrapped(words, size, room.w).size());
  };
  float size = 19;
  while (size > 11 && height(size) > room.h) size -= 0.5f;
  scene.paragraph("sentence", {0, (room.h - height(size)) / 2, room.w, room.h}, words,
                  {.size = size, .paint = {ink}});
  return scene;
}

}  // namespace viz
