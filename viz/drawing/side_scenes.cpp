#include "viz/drawing/side_scenes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/table.h"

namespace viz {
namespace {

constexpr float kRow = 42, kValue = 20, kName = 12, kWidest = 150;

struct Figures {
  std::vector<Counter> shown;
  int columns = 1;
  float w = 0;  // of a column
};

/// As many columns as cut no name and no value: all, or up to three, or two of four counters.
Figures laid_out(const Page& page, float width) {
  Figures figures;
  float widest = 0;
  for (Counter& counter : page.counters()) {
    if (counter.label.empty()) continue;
    if (counter.text.empty()) counter.text = kv::with_commas(counter.value);
    widest = std::max({widest, text_width(counter.label, kName), text_width(counter.text, kValue)});
    figures.shown.push_back(std::move(counter));
  }
  const auto fitting = static_cast<int>(width / (widest + 6));
  const auto count = static_cast<int>(figures.shown.size());
  const int most = count > 0 && fitting >= count ? count : count == 4 ? 2 : 3;
  figures.columns = std::clamp(fitting, 1, most);
  figures.w = std::min(width / static_cast<float>(figures.columns), kWidest);
  return figures;
}

}  // namespace

Room figures_room(float width, const Page& page) {
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
    scene.label(id + "/value", {cell.x, cell.y, cell.w, 22}, counter.text, {.size = kValue})
        .during({0.7f, 1});
    scene.label(id + "/label", {cell.x, cell.y + 22, cell.w, 16}, counter.label,
                {.size = kName, .paint = {Ink::kDim}});
    ++index;
  }
  return scene;
}

Scene films_of(const std::vector<Scenario>& scenarios, const Room& room, bool in_column) {
  constexpr float kGap = 6, kSign = 19, kPad = 5, kAround = kSign + kPad;
  Scene scene(room);
  const auto count = static_cast<float>(scenarios.size());
  float all = 0;  // width of the titles; in a row each has its share of the room
  for (const Scenario& one : scenarios) all += text_width(one.shown_title(), 1);
  const float tall = in_column ? (room.h + kGap) / count - kGap : room.h;
  const auto width = [&](const Scenario& one) {
    const float rest = room.w + kGap - count * (kGap + kAround);
    return in_column ? room.w - kAround : rest * text_width(one.shown_title(), 1) / all;
  };
  float size = 13.5f;
  const auto height = [&](const Scenario& one) {
    return 1.4f * size * static_cast<float>(wrapped(one.shown_title(), size, width(one)).size());
  };
  while (size > 10 &&
         std::ranges::any_of(scenarios, [&](const Scenario& one) { return height(one) > tall; })) {
    size -= 0.5f;
  }
  Place at{0, 0, 0, tall};
  for (const Scenario& one : scenarios) {
    const std::string id = "film/" + one.name;
    const float wide = std::min(width(one), text_width(one.shown_title(), size) + 4);
    at.w = in_column ? room.w : wide + kAround;
    scene.box(id, at, paint(Ink::kPanel), paint(Ink::kLine)).radius = 6;
    scene.label(id + "/sign", {at.x + kPad, at.y, kSign - kPad, tall}, "\u25B6",
                {.size = 10, .paint = {Ink::kDim}});
    scene.paragraph(id + "/title",
                    {at.x + kSign, at.y + (tall - height(one)) / 2, width(one), tall},
                    one.shown_title(), {.size = size});
    (in_column ? at.y : at.x) += (in_column ? tall : at.w) + kGap;
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
