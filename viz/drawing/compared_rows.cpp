#include "viz/drawing/compared_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace viz {
namespace {

constexpr float kLabel = 104, kLead = 100, kVerdict = 104;  // widths

}  // namespace

void compared_row(Scene& scene, const std::string& id, const Place& at, const ComparedRow& row,
                  const ComparedRow* against, const std::function<Span(float, float)>& when) {
  const auto cell = [&](const std::string& name, const Place& place, const std::string& text,
                        const Paint& fill, bool differs, float begin) {
    const Span span = when(begin, 0.15f);
    Shape& box = scene.box(name, place, fill, paint(differs ? Ink::kError : Ink::kLine));
    box.edged(box.edge, differs ? 2.0f : 1.0f).during(span).radius = 3;
    Shape& word = scene.label(name + "/token", place.inset(2), text,
                              {.size = 12, .align = Align::kCentre}, 5);
    word.during(span).struck = differs;
  };
  scene.label(id + "/label", {at.x, at.y, kLabel - 6, at.h}, row.label)
      .during(when(row.begin, 0.2f));
  cell(id + "/after", {at.x + kLabel, at.y, kLead - 6, at.h}, row.lead, paint(Ink::kCell),
       against != nullptr && against->lead != row.lead, row.begin);
  const size_t count = std::min(row.cells.size(), kMaxCompared);
  const float width = at.w - kLabel - kLead - kVerdict;
  const float w = width / static_cast<float>(std::max<size_t>(count, 4));
  for (size_t i = 0; i < count; ++i) {
    const bool differs = against != nullptr && against->cells[i] != row.cells[i];
    const auto before = static_cast<float>(i);
    cell(fmt::format("{}/{}", id, i), {at.x + kLabel + kLead + before * w, at.y, w - 2, at.h},
         row.cells[i], row.fill, differs, row.begin + row.step * before);
  }
}

Shape& verdict(Scene& scene, const std::string& id, const Place& at, const std::string& text,
               Ink ink) {
  return scene.label(id + "/verdict", {at.right() - kVerdict + 6, at.y, kVerdict - 6, at.h}, text,
                     {.size = 13, .paint = {ink}});
}

}  // namespace viz
