#include "viz/drawing/compared_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

constexpr float kLabel = 104, kLead = 100, kVerdict = 104;  // widths

/// The widths of the cells, and whether a row differs in it; all are equal if all words fit.
struct Columns {
  Columns(const ComparedRow& wanted, float width, float size)
      : count(std::min(wanted.cells.size(), kMaxCompared)), widths(count), differs(count) {
    constexpr float kPad = 8;
    const float equal = width / static_cast<float>(std::max<size_t>(count, 4));
    float rest = width;
    size_t num_equal = 0;
    bool all_fit = true;
    for (size_t i = 0; i < count; ++i) {
      float widest = text_width(wanted.cells[i], size);
      for (const std::vector<std::string>& other : wanted.others) {
        differs[i] = differs[i] || other[i] != wanted.cells[i];
        widest = std::max(widest, text_width(other[i], size));
      }
      all_fit = all_fit && widest + kPad <= equal;
      widths[i] = widest + kPad;
      if (differs[i]) rest -= widths[i];
      num_equal += !differs[i];
    }
    words_in_all = all_fit || rest <= 0;
    const float each = rest / static_cast<float>(std::max<size_t>(num_equal, 1));
    for (size_t i = 0; i < count; ++i) {
      if (words_in_all || !differs[i]) widths[i] = words_in_all ? equal : std::min(each, equal);
    }
  }

  size_t count;
  std::vector<float> widths;
  std::vector<bool> differs;
  bool words_in_all = true;
};

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
  const bool narrow = is_narrow(scene.room());  // the cells are below their names
  const float h = narrow ? at.h / 2 - 2 : at.h;
  scene.label(id + "/label", {at.x, at.y, kLabel - 6, h}, row.label).during(when(row.begin, 0.2f));
  cell(id + "/after", {at.x + kLabel, at.y, kLead - 6, h}, row.lead, paint(Ink::kCell),
       against != nullptr && against->lead != row.lead, row.begin);
  const float beside = narrow ? 0 : kLabel + kLead;
  const Columns columns(against != nullptr ? *against : row,
                        at.w - beside - (narrow ? 0 : kVerdict), readable(scene.room(), 9));
  float x = at.x + beside;
  for (size_t i = 0; i < columns.count; ++i) {
    const bool differs = against != nullptr && against->cells[i] != row.cells[i];
    const bool has_word = columns.words_in_all || columns.differs[i];
    cell(fmt::format("{}/{}", id, i), {x, at.bottom() - h, columns.widths[i] - 2, h},
         has_word ? row.cells[i] : "", row.fill, differs,
         row.begin + row.step * static_cast<float>(i));
    x += columns.widths[i];
  }
}

Shape& verdict(Scene& scene, const std::string& id, const Place& at, const std::string& text,
               Ink ink) {
  return scene.label(id + "/verdict",
                     {at.right() - kVerdict + 6, at.y, kVerdict - 6,
                      is_narrow(scene.room()) ? at.h / 2 - 2 : at.h},
                     text, {.size = 13, .paint = {ink}});
}

}  // namespace viz
