#include "viz/drawing/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "viz/drawing/palette.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/svg_pen.h"
#include "viz/drawing/window_layout.h"
#include "viz/page.h"

namespace viz {
namespace {

constexpr float kSlack = 1;  // points that do not count
constexpr size_t kMostFaults = 20;
constexpr double kLeastContrast = 4.5;  // as WCAG 2 demands of text
constexpr float kLeastCovered = 0.45f;  // of the window below its tabs

/// A shape that counts, with what it covers: of a text its letters, not its line.
struct Item {
  const Shape* shape;
  Place at;
  size_t rank;  // drawn so late
};

Place letters_of(const Shape& text) {
  const float w = text_width(text.text, text.size), h = 0.9f * text.size;
  const float x = text.align == Align::kCentre  ? text.at.middle_x() - w / 2
                  : text.align == Align::kRight ? text.at.right() - w
                                                : text.at.x;
  return {x, text.at.middle_y() - h / 2, w, h};
}

bool overlap(const Place& a, const Place& b) {
  return a.x + kSlack < b.right() && b.x + kSlack < a.right() && a.y + kSlack < b.bottom() &&
         b.y + kSlack < a.bottom();
}

bool within(const Place& inner, const Place& outer) {
  return inner.x >= outer.x - kSlack && inner.y >= outer.y - kSlack &&
         inner.right() <= outer.right() + kSlack && inner.bottom() <= outer.bottom() + kSlack;
}

bool holds(const Place& place, float x, float y) {
  return x >= place.x && x < place.right() && y >= place.y && y < place.bottom();
}

struct Light {
  double r = 0, g = 0, b = 0;  // 0 to 1, as a screen is told
};

Light light_of(Colour colour) {
  const auto part = [&](int shift) { return static_cast<double>(colour >> shift & 255) / 255; };
  return {part(0), part(8), part(16)};
}

Light blended(const Light& under, Colour over, double opacity) {
  const double alpha = static_cast<double>(over >> 24) / 255 * opacity;
  const Light top = light_of(over);
  const auto mix = [&](double a, double b) { return a + (b - a) * alpha; };
  return {mix(under.r, top.r), mix(under.g, top.g), mix(under.b, top.b)};
}

/// Relative luminance, as WCAG 2 defines it.
double luminance(const Light& light) {
  const auto linear = [](double c) {
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(light.r) + 0.7152 * linear(light.g) + 0.0722 * linear(light.b);
}

double contrast(const Light& a, const Light& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

class Check {
 public:
  explicit Check(const Scene& scene) : scene_(scene) {
    size_t rank = 0;
    for (const bool over : {false, true}) {
      for (const Shape& shape : scene.shapes()) {
        if (shape.over != over || shape.only_lit || shape.kind == Shape::Kind::kLine) continue;
        const bool is_text = shape.kind == Shape::Kind::kText;
        if (is_text && shape.text.empty()) continue;
        items_.push_back({&shape, is_text ? letters_of(shape) : shape.at, rank++});
      }
    }
    std::ranges::stable_sort(items_, {}, [](const Item& item) { return item.at.x; });
  }

  std::vector<std::string> faults() {
    std::set<std::string> ids;
    for (const Shape& shape : scene_.shapes()) {
      if (!ids.insert(shape.id).second) tell("{} is there twice", shape.id);
      if (shape.cut) tell("{} is cut: \"{}\"", shape.id, shape.text);
    }
    for (const Item& item : items_) one(item);
    for (const Shape& shape : scene_.shapes()) {
      if (shape.kind == Shape::Kind::kLine && !shape.only_lit) line(shape);
    }
    for (size_t i = 0; i < items_.size(); ++i) {
      for (size_t k = i + 1; k < items_.size() && items_[k].at.x < items_[i].at.right(); ++k) {
        if (overlap(items_[i].at, items_[k].at)) pair(items_[i], items_[k]);
      }
    }
    for (const Item& item : items_) {
      if (is_text(item)) legible(item);
      if (is_sample(*item.shape)) sample(item);
    }
    return std::move(faults_);
  }

 private:
  static bool is_text(const Item& item) { return item.shape->kind == Shape::Kind::kText; }
  static std::string name(const Item& item) {
    const Place& at = item.at;
    return fmt::format("{} ({:.0f}, {:.0f}, {:.0f} x {:.0f})", item.shape->id, at.x, at.y, at.w,
                       at.h);
  }
  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) {
    if (faults_.size() < kMostFaults) {
      faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
  }

  void one(const Item& item) {
    const Place& at = item.at;
    const bool is_place = std::isfinite(at.x + at.y + at.w + at.h) && at.w >= 0 && at.h >= 0;
    if (!is_place || !within(at, {0, 0, scene_.room().w, scene_.room().h})) {
      tell("{} is not within the room of {:.0f} x {:.0f}", name(item), scene_.room().w,
           scene_.room().h);
    }
  }

  void line(const Shape& shape) {
    const Place &at = shape.at, room{0, 0, scene_.room().w, scene_.room().h};
    if (!within({at.x, at.y, 0, 0}, room) || !within({at.right(), at.bottom(), 0, 0}, room)) {
      tell("the line {} leads out of the room", shape.id);
    }
  }

  /// Two that overlap.
  void pair(const Item& a, const Item& b) {
    const Item &above = a.shape->over ? a : b, &below = a.shape->over ? b : a;
    if (above.shape->over && below.shape->id.starts_with("legend/")) {
      tell("{} covers {} of the legend", name(above), name(below));
      return;
    }
    if (is_text(a) && is_text(b)) {
      if (a.shape->over == b.shape->over || !on_a_bubble(a.shape->over ? a : b)) {
        tell("the texts {} and {} overlap", name(a), name(b));
      }
      return;
    }
    if (a.shape->over || b.shape->over) return;
    if (!is_text(a) && !is_text(b)) {
      if (!within(a.at, b.at) && !within(b.at, a.at)) {
        tell("the boxes {} and {} are neither nested nor apart", name(a), name(b));
      }
      return;
    }
    const Item &text = is_text(a) ? a : b, &box = is_text(a) ? b : a;
    if (box.shape->edge.ink != Ink::kNone && !within(text.at, box.at)) {
      tell("the text {} crosses the edge of {}", name(text), name(box));
    }
    if (box.rank > text.rank && box.shape->fill.ink != Ink::kNone) {
      tell("{} is drawn over the text {}", name(box), name(text));
    }
  }

  bool on_a_bubble(const Item& text) const {
    return std::ranges::any_of(items_, [&](const Item& box) {
      return !is_text(box) && box.shape->over && box.rank < text.rank &&
             box.shape->fill.ink != Ink::kNone && within(text.at, box.at);
    });
  }

  /// Three places of a text against all fills under them.
  void legible(const Item& text) {
    const float y = text.at.middle_y();
    std::vector<const Item*> under;
    for (const Item& box : items_) {
      const bool is_under = !is_text(box) && box.rank < text.rank && overlap(box.at, text.at);
      if (is_under) under.push_back(&box);
    }
    std::ranges::sort(under, {}, &Item::rank);
    for (const Theme* theme : {&kDark, &kLight}) {
      double least = 21;
      for (const float part : {0.02f, 0.5f, 0.98f}) {
        Light ground = light_of(theme->ground);
        for (const Item* box : under) {
          if (holds(box->at, text.at.x + part * text.at.w, y)) {
            const auto opacity = static_cast<double>(box->shape->opacity);
            ground = blended(ground, (*theme)(box->shape->fill), opacity);
          }
        }
        const Light ink =
            blended(ground, (*theme)(text.shape->fill), static_cast<double>(text.shape->opacity));
        least = std::min(least, contrast(ink, ground));
      }
      if (least < kLeastContrast) {
        tell("the text {} has a contrast of {:.1f} in the {} theme, wanted {}", name(text), least,
             theme == &kDark ? "dark" : "light", kLeastContrast);
      }
    }
  }

  /// Of a legend.
  static bool is_sample(const Shape& shape) {
    return shape.id.starts_with("legend/") && shape.id.find('/', 7) == std::string::npos;
  }

  /// A sample's edge, or its fill, stands out from the ground, and no other sample looks the same.
  void sample(const Item& item) {
    const Shape& shape = *item.shape;
    for (const Theme* theme : {&kDark, &kLight}) {
      const Light ground = light_of(theme->ground);
      const double edge = contrast(blended(ground, (*theme)(shape.edge), 1), ground);
      const double fill = contrast(blended(ground, (*theme)(shape.fill), 1), ground);
      if (std::max(edge, fill) < kLeastContrast) {
        tell("the sample {} has a contrast of {:.1f} in the {} theme, wanted {}", shape.id,
             std::max(edge, fill), theme == &kDark ? "dark" : "light", kLeastContrast);
      }
    }
    const auto look = [this](const Shape& one) {
      return std::tuple(svg_name(one.fill), one.fill.strength, svg_name(one.edge), one.pattern,
                        one.dashed, one.thickness, scene_.find(one.id + "/twin") != nullptr);
    };
    for (const Shape& other : scene_.shapes()) {
      if (is_sample(other) && other.id < shape.id && look(other) == look(shape)) {
        tell("the samples {} and {} look alike", other.id, shape.id);
      }
    }
  }

  const Scene& scene_;
  std::vector<Item> items_;  // by x
  std::vector<std::string> faults_;
};

struct Mark {
  const char* name;
  bool (*is_on)(const Shape& box);
};
constexpr Mark kMarks[] = {
    {"is hatched", [](const Shape& box) { return box.pattern == Pattern::kHatched; }},
    {"is dotted", [](const Shape& box) { return box.pattern == Pattern::kDotted; }},
    {"is crossed", [](const Shape& box) { return box.pattern == Pattern::kCrossed; }},
    {"is lined", [](const Shape& box) { return box.pattern == Pattern::kLined; }},
    {"is dashed", [](const Shape& box) { return box.dashed && box.edge.ink != Ink::kNone; }},
    {"is framed as changed", [](const Shape& box) { return box.edge.ink == Ink::kMark; }},
    {"is framed as an error", [](const Shape& box) { return box.edge.ink == Ink::kError; }},
    {"has a bar at its foot",
     [](const Shape& box) { return box.fill == paint(Ink::kText) && box.at.h <= 3; }},
};

/// Area of the smallest rectangle around all shapes.
float area_of(const Scene& scene) {
  float left = scene.room().w, top = scene.room().h, right = 0, bottom = 0;
  for (const Shape& shape : scene.shapes()) {
    const Place at = shape.kind == Shape::Kind::kText ? letters_of(shape) : shape.at;
    left = std::min(left, at.x);
    top = std::min(top, at.y);
    right = std::max(right, at.right());
    bottom = std::max(bottom, at.bottom());
  }
  return std::max(0.0f, right - left) * std::max(0.0f, bottom - top);
}

}  // namespace

double contrast(Colour a, Colour b) { return contrast(light_of(a), light_of(b)); }

std::vector<std::string> layout_faults(const Scene& scene) { return Check(scene).faults(); }

std::vector<std::string> unexplained_marks(const Scene& scene) {
  std::vector<std::string> faults;
  const auto is_box = [](const Shape& shape) { return shape.kind == Shape::Kind::kBox; };
  const auto is_sample = [&](const Shape& shape) {
    return is_box(shape) && shape.id.starts_with("legend/");
  };
  for (const Mark& mark : kMarks) {
    const Shape* marked = nullptr;
    bool is_explained = false;
    for (const Shape& shape : scene.shapes()) {
      if (!is_box(shape) || shape.over || shape.only_lit || !mark.is_on(shape)) continue;
      if (is_sample(shape)) {
        is_explained = true;
      } else {
        marked = &shape;
      }
    }
    if (marked != nullptr && !is_explained) {
      faults.push_back(fmt::format("{} {}, and no sample of the legend", marked->id, mark.name));
    }
  }
  for (const Shape& text : scene.shapes()) {
    const bool found = text.text.starts_with(glyph(State::kFound));
    if (!found && !text.text.starts_with(glyph(State::kEvicted))) continue;
    const Shape* const box = scene.find(text.id.substr(0, text.id.rfind('/')));
    if (box == nullptr || !is_box(*box) || box == &text) continue;
    const auto looks_so = [&](const Shape& one) {
      if (!is_box(one) || one.at != box->at) return false;
      return found ? one.edge.ink == Ink::kText
                   : one.pattern == Pattern::kCrossed || one.edge.ink == Ink::kError;
    };
    if (!std::ranges::any_of(scene.shapes(), looks_so)) {
      faults.push_back(fmt::format("{} has a glyph that its box denies", text.id));
    }
  }
  return faults;
}

std::vector<std::string> layout_faults(Page& page) {
  struct Size {
    float w, h;
    bool filled = false;  // whether the picture must fill it
  };
  std::vector<std::string> all;
  const bool acts = !page.actions().empty();
  for (const Size& size : {Size{390, 844}, Size{700, 520}, Size{1024, 640}, Size{1280, 800, true},
                           Size{1920, 1080, true}, Size{2560, 1440}}) {
    const WindowLayout layout = window_layout(size.w, size.h, {.actions = acts, .folded = acts});
    const Scene scene = page.scene(picture_room(layout, page.info().tall));
    if (scene.shapes().empty()) return {};  // it has no picture yet
    std::vector<std::string> faults = layout_faults(scene);
    std::ranges::move(unexplained_marks(scene), std::back_inserter(faults));
    const float part = area_of(scene) / (size.w * (size.h - layout.tabs.bottom()));
    if (size.filled && part < kLeastCovered) {
      faults.push_back(
          fmt::format("the picture covers {:.0f} % of the window below its tabs, "
                      "wanted at least {:.0f}",
                      100 * part, 100 * kLeastCovered));
    }
    for (const std::string& fault : faults) {
      all.push_back(fmt::format("at {:.0f}x{:.0f}: {}", size.w, size.h, fault));
    }
  }
  return all;
}

}  // namespace viz
