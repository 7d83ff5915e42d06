#include "viz/drawing/side_scenes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/table.h"

namespace viz {
namespace {

constexpr float kRow = 42, kValue = 18, kName = 12;

struct Figures {
  std::vector<Counter> shown;
  int columns = 1;
  float w = 0;  // of a column
};

/// The largest number of columns that cuts no name.
Figures laid_out(const Page& page, float width) {
  Figures figures;
  float widest = 0;
  for (Counter& counter : page.counters()) {
    if (counter.label.empty()) continue;
    widest = std::max(widest, text_width(counter.label, kName));
    figures.shown.push_back(std::move(counter));
  }
  const auto fitting = static_cast<int>(width / (widest + 6));
  figures.columns = std::clamp(fitting, 1, 3);
  figures.w = width / static_cast<float>(figures.columns);
  return figures;
}

}  // namespace

Room figures_room(const Place& side, const Page& page) {
  const float width = side.w - 2 * kSidePad;
  const Figures figures = laid_out(page, width);
  const auto count = static_cast<int>(figures.shown.size());
  return {width, kRow * static_cast<float>((count + figures.columns - 1) / figures.columns)};
}

Scene figures_of(const Page& page, const Room& room) {
  Scene scene(room);
  const Figures figures = laid_out(page, room.w);
  int index = 0;
  for (const Counter& counter : figures.shown) {
    const auto column = static_cast<float>(index % figures.columns),
               row = static_cast<float>(index / figures.columns);
    const Place cell{figures.w * column, kRow * row, figures.w - 4, kRow - 4};
    const std::string id = "counters/" + counter.label;
    scene.box(id, cell, {}).tip(counter.tooltip);
    scene
        .label(id + "/value", {cell.x, cell.y, cell.w, 22},
               counter.text.empty() ? kv::with_commas(counter.value) : counter.text,
               {.size = kValue})
        .during({0.7f, 1});
    scene.label(id + "/label", {cell.x, cell.y + 22, cell.w, 16}, counter.label,
                {.size = kName, .paint = {Ink::kDim}});
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
