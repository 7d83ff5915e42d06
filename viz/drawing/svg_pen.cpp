#include "viz/drawing/svg_pen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "common/utf8.h"
#include "viz/drawing/palette.h"

namespace viz {
namespace {

constexpr float kMargin = 16;

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour & 0xFF, colour >> 8 & 0xFF, colour >> 16 & 0xFF);
}

/// `text` in XML, which may not hold ill-formed bytes, control characters, U+FFFE and U+FFFF.
std::string escaped(std::string_view text) {
  std::string all;
  for (size_t pos = 0; pos < text.size();) {
    const kv::Utf8Step step = kv::utf8_step(text, pos);
    const std::string_view part = text.substr(pos, step.length);
    pos += step.length;
    if (part == "<") {
      all += "&lt;";
    } else if (part == "&") {
      all += "&amp;";
    } else if (part == "\"") {
      all += "&quot;";
    } else if (!step.valid || step.code_point == 0xFFFE || step.code_point == 0xFFFF) {
      all += "\uFFFD";
    } else if (step.code_point >= 0x20) {
      all += part;
    }
  }
  return all;
}

/// Every colour that a file can have.
std::vector<Paint> all_paints() {
  std::vector<Paint> all;
  for (int ink = static_cast<int>(Ink::kGround); ink < static_cast<int>(Ink::kHue); ++ink) {
    all.push_back(paint(static_cast<Ink>(ink)));
  }
  for (int hue = 0; hue < static_cast<int>(kHues.size()); ++hue) all.push_back(full(hue));
  return all;
}

std::string opacity_of(const char* name, float strength) {
  return strength >= 1 ? "" : fmt::format(" {}='{:.2f}'", name, strength);
}

/// The rules that make a light file dark. Attributes have the light colours, which programs without
/// style sheets draw. Variables are for keyframes, where no attribute is.
std::string dark_rules(const std::string& body, bool animated) {
  std::string rules, light, dark;
  for (const Paint& one : all_paints()) {
    for (const char* attribute : {"fill", "stroke"}) {
      const std::string is = fmt::format("{}='{}'", attribute, svg_colour(one));
      if (body.find(is) == std::string::npos) continue;
      rules += fmt::format("[{}]{{{}:{}}}", is, attribute, hex(kDark(one)));
    }
    light += fmt::format("--{}:{};", svg_name(one), svg_colour(one));
    dark += fmt::format("--{}:{};", svg_name(one), hex(kDark(one)));
  }
  const std::string strength = opacity_of("fill-opacity", kLight.fill).substr(1);
  if (body.find(strength) != std::string::npos) {
    rules += fmt::format("[{}]{{fill-opacity:{}}}", strength, kDark.fill);
  }
  light += fmt::format("--s:{};", kLight.fill);
  dark += fmt::format("--s:{};", kDark.fill);
  if (!animated) return "@media(prefers-color-scheme:dark){" + rules + "}";
  return fmt::format("svg{{{}}}@media(prefers-color-scheme:dark){{svg{{{}}}{}}}", light, dark,
                     rules);
}

constexpr std::array<const char*, 5> kPatternNames = {"", "hatched", "dotted", "", "lined"};
constexpr std::array<const char*, 9> kInkNames = {"", "g", "p", "c", "l", "d", "t", "m", "e"};

std::string fill_of(const Paint& paint) {
  if (paint.ink == Ink::kNone) return "fill='none'";
  return fmt::format("fill='{}'{}", svg_colour(paint), opacity_of("fill-opacity", paint.strength));
}

std::string stroke_of(const Shape& shape) {
  if (shape.edge.ink == Ink::kNone) return "";
  return fmt::format(" stroke='{}' stroke-width='{}'{}{}", svg_colour(shape.edge),
                     svg_number(shape.thickness), opacity_of("stroke-opacity", shape.edge.strength),
                     shape.dashed ? " stroke-dasharray='4 3'" : "");
}

std::string rectangle(const Place& at, float radius) {
  return fmt::format("<rect x='{}' y='{}' width='{}' height='{}' rx='{}'", svg_number(at.x),
                     svg_number(at.y), svg_number(std::max(at.w, 0.0f)),
                     svg_number(std::max(at.h, 0.0f)), svg_number(radius));
}

std::string label(const Shape& shape, const std::string& attributes) {
  const Place& at = shape.at;
  const bool right = shape.align == Align::kRight, centre = shape.align == Align::kCentre;
  return fmt::format("<text{} x='{}' y='{}' font-size='{}'{}{} {}>{}</text>", attributes,
                     svg_number(centre  ? at.middle_x()
                                : right ? at.right()
                                        : at.x),
                     svg_number(at.middle_y() + 0.36f * shape.size), svg_number(shape.size),
                     centre  ? " text-anchor='middle'"
                     : right ? " text-anchor='end'"
                             : "",
                     shape.struck ? " text-decoration='line-through'" : "", fill_of(shape.fill),
                     escaped(shape.text));
}

std::string line(const Shape& shape, const std::string& attributes) {
  const Place& at = shape.at;
  const float length = std::max(std::hypot(at.w, at.h), 1e-3f);
  const float x = 8 * at.w / length, y = 8 * at.h / length;
  std::string all = fmt::format("<path{} d='M{} {}L{} {}' fill='none'{}/>", attributes,
                                svg_number(at.x), svg_number(at.y), svg_number(at.right()),
                                svg_number(at.bottom()), stroke_of(shape));
  if (!shape.arrow) return all;
  return all + fmt::format("<path{} d='M{} {}L{} {}L{} {}Z' {}/>", attributes,
                           svg_number(at.right()), svg_number(at.bottom()),
                           svg_number(at.right() - x - y / 2), svg_number(at.bottom() - y + x / 2),
                           svg_number(at.right() - x + y / 2), svg_number(at.bottom() - y - x / 2),
                           fill_of(shape.edge));
}

}  // namespace

std::string svg_number(float value) {
  const double tenths = std::floor(static_cast<double>(value) * 10 + 0.501);
  std::string text = fmt::format("{:.1f}", tenths / 10);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string svg_colour(const Paint& paint) { return hex(kLight({paint.ink, paint.hue, 1})); }

std::string svg_name(const Paint& paint) {
  if (paint.ink != Ink::kHue) return kInkNames[static_cast<size_t>(paint.ink)];
  const auto n = static_cast<int>(kHues.size());
  return fmt::format("h{}", (paint.hue % n + n) % n);
}

std::string SvgPen::draw(const Shape& shape, const std::string& attributes) {
  switch (shape.kind) {
    case Shape::Kind::kBox:
      return box(shape, attributes);
    case Shape::Kind::kText:
      return label(shape, attributes);
    default:
      return line(shape, attributes);
  }
}

std::string SvgPen::box(const Shape& shape, const std::string& attributes) {
  return fmt::format("{}{} {}{}/>{}", rectangle(shape.at, shape.radius), attributes,
                     fill_of(shape.fill), stroke_of(shape), pattern(shape, attributes));
}

std::string SvgPen::pattern(const Shape& shape, const std::string& attributes) {
  if (shape.pattern == Pattern::kPlain) return "";
  const Paint ink = shape.edge.ink == Ink::kNone ? paint(Ink::kDim) : shape.edge;
  if (shape.pattern == Pattern::kCrossed) {
    const Place& at = shape.at;
    return fmt::format("<path{} d='M{} {}L{} {}M{} {}L{} {}' stroke='{}' stroke-opacity='.45'/>",
                       attributes, svg_number(at.x), svg_number(at.y), svg_number(at.right()),
                       svg_number(at.bottom()), svg_number(at.x), svg_number(at.bottom()),
                       svg_number(at.right()), svg_number(at.y), svg_colour(ink));
  }
  patterns_.emplace(shape.pattern, std::pair(svg_name(ink), svg_colour(ink)));
  return fmt::format("{}{} fill='url(#{}-{})'/>", rectangle(shape.at, shape.radius), attributes,
                     kPatternNames[static_cast<size_t>(shape.pattern)], svg_name(ink));
}

std::string SvgPen::definitions() const {
  std::string all;
  for (const auto& [pattern, ink] : patterns_) {
    const auto& [name, colour] = ink;
    if (pattern == Pattern::kHatched) {
      all += fmt::format(
          "<pattern id='hatched-{0}' width='6' height='6' patternUnits='userSpaceOnUse' "
          "patternTransform='rotate(45)'><path d='M0 0V6' stroke='{1}' stroke-width='2.4' "
          "stroke-opacity='.45'/></pattern>",
          name, colour);
    } else if (pattern == Pattern::kLined) {
      all += fmt::format(
          "<pattern id='lined-{}' width='6' height='6' patternUnits='userSpaceOnUse'>"
          "<path d='M0 3H6' stroke='{}' stroke-width='1.6' stroke-opacity='.45'/></pattern>",
          name, colour);
    } else {
      all += fmt::format(
          "<pattern id='dotted-{0}' width='8' height='8' patternUnits='userSpaceOnUse'>"
          "<circle cx='4' cy='4' r='1.3' fill='{1}' fill-opacity='.6'/></pattern>",
          name, colour);
    }
  }
  return all.empty() ? "" : "<defs>" + all + "</defs>\n";
}

std::string svg_document(const Room& room, float below, const std::string& title,
                         const std::string& style, const std::string& body) {
  const float w = room.w + 2 * kMargin, h = room.h + 2 * kMargin + below;
  const std::string drawn = fmt::format(
      "<rect width='{}' height='{}' rx='10' fill='{}'/>\n<g transform='translate({} "
      "{})'>\n{}</g>\n",
      svg_number(w), svg_number(h), svg_colour(paint(Ink::kGround)), svg_number(kMargin),
      svg_number(kMargin), body);
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg'{6} viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "role='img' aria-label=\"{2}\" font-family='\"DejaVu Sans\",Verdana,sans-serif'>\n"
      "<title>{2}</title>\n<style>{3}{4}</style>\n{5}</svg>\n",
      svg_number(w), svg_number(h), escaped(title), dark_rules(drawn, !style.empty()), style, drawn,
      style.empty() ? "" : " id='still'");
}

}  // namespace viz
