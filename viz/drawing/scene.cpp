#include "viz/drawing/scene.h"

#include <algorithm>
#include <array>
#include <utility>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

// Advance widths of DejaVu Sans from U+0020 to U+007E, in thousandths of an em.
constexpr std::array<int16_t, 95> kAdvance = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838};
constexpr int kOtherAdvance = 840;  // of arrows, signs, and letters of other scripts: mostly less
constexpr std::string_view kDots = "\xE2\x80\xA6";  // an ellipsis

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// The longest beginning that fits with dots after it, whole characters of UTF-8 only.
std::string shortened(std::string text, float size, float width) {
  while (!text.empty() && text_width(text, size) + text_width(kDots, size) > width) {
    while (!text.empty() && continues(text.back())) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text.append(kDots);
}

}  // namespace

float text_width(std::string_view text, float size) {
  int thousandths = 0;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7F) {
      thousandths += kAdvance[static_cast<size_t>(code - 0x20)];
    } else if (!continues(c)) {
      thousandths += kOtherAdvance;
    }
  }
  return static_cast<float>(thousandths) * size / 1000;
}

std::vector<std::string> wrapped(std::string_view text, float size, float width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!lines.empty() && text_width(lines.back() + " " + word, size) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

Shape& Shape::tip(std::string words) {
  tooltip = std::move(words);
  return *this;
}
Shape& Shape::runs(std::string line) {
  command = std::move(line);
  return *this;
}
Shape& Shape::selecting(std::string what) {
  selects = std::move(what);
  return *this;
}
Shape& Shape::lighting(std::vector<std::string> ids) {
  lights = std::move(ids);
  return *this;
}
Shape& Shape::comes_from(std::string other, Span span) {
  from = std::move(other);
  when = span;
  return *this;
}
Shape& Shape::during(Span span) {
  when = span;
  return *this;
}
Shape& Shape::edged(Paint paint, float width) {
  edge = paint;
  thickness = width;
  return *this;
}
Shape& Shape::patterned(Pattern its_pattern) {
  pattern = its_pattern;
  return *this;
}
Shape& Shape::dashed_edge() {
  dashed = true;
  return *this;
}
Shape& Shape::on_top() {
  over = true;
  return *this;
}
Shape& Shape::pointing() {
  arrow = true;
  return *this;
}

std::optional<size_t> Scene::index_of(std::string_view id) const {
  for (; indexed_ < shapes_.size(); ++indexed_) index_.emplace(shapes_[indexed_].id, indexed_);
  const auto found = index_.find(std::string(id));
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

const Shape* Scene::find(std::string_view id) const {
  const std::optional<size_t> i = index_of(id);
  return i ? &shapes_[*i] : nullptr;
}
Shape* Scene::find(std::string_view id) {
  const std::optional<size_t> i = index_of(id);
  return i ? &shapes_[*i] : nullptr;
}

Shape& Scene::box(std::string id, const Place& at, Paint fill, Paint edge) {
  return shapes_.emplace_back(
      Shape{.kind = Shape::Kind::kBox, .id = std::move(id), .at = at, .fill = fill, .edge = edge});
}

Shape& Scene::label(std::string id, const Place& at, std::string text, const Type& type,
                    float least) {
  Shape shape{.kind = Shape::Kind::kText,
              .id = std::move(id),
              .at = at,
              .fill = type.paint,
              .size = readable(room_, roomy(room_, type.size)),
              .align = type.align};
  const float wide = text_width(text, shape.size);
  if (wide > at.w && wide > 0) {
    shape.size = std::max(shape.size * at.w / wide, readable(room_, least));
  }
  shape.cut = text_width(text, shape.size) > at.w + 0.5f;
  shape.text = shape.cut ? shortened(std::move(text), shape.size, at.w) : std::move(text);
  return shapes_.emplace_back(std::move(shape));
}

Shape& Scene::line(std::string id, float x0, float y0, float x1, float y1, Paint colour,
                   float thickness) {
  return shapes_.emplace_back(Shape{.kind = Shape::Kind::kLine,
                                    .id = std::move(id),
                                    .at = {x0, y0, x1 - x0, y1 - y0},
                                    .edge = colour,
                                    .thickness = thickness});
}

float Scene::paragraph(const std::string& id, const Place& at, std::string_view text,
                       const Type& type) {
  const float pitch = 1.4f * type.size;
  float y = at.y;
  int number = 0;
  for (const std::string& words : wrapped(text, type.size, at.w)) {
    Shape& line = label(id + " " + std::to_string(number++), {at.x, y, at.w, pitch}, words, type);
    line.size = std::min(line.size, readable(room_, type.size));  // as it was wrapped
    y += pitch;
  }
  return y - at.y;
}

void Scene::leaves(std::string id, const Place& to, Span when, bool struck) {
  leaving_.push_back({std::move(id), to, when, struck});
}

void Scene::ends(std::string id, Span when, bool struck) {
  leaving_.push_back({std::move(id), {}, when, struck});
}

void Scene::ghost(Shape shape, const Place& to, Span when) {
  shape.when = when;
  shape.over = true;
  ghosts_.push_back({std::move(shape), to});
}

void Scene::drop_hints() {
  for (Shape& shape : shapes_) {
    shape.from.clear();
    shape.when = {};
  }
  leaving_.clear();
  ghosts_.clear();
  seconds_ = Scene().seconds_;
}

}  // namespace viz
