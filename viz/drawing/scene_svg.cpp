#include "viz/drawing/scene_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "viz/drawing/film.h"
#include "viz/drawing/svg_pen.h"

namespace viz {
namespace {

/// Writes the elements of a film, and the rules of style that move them.
class Writer {
 public:
  Writer(const std::vector<Frame>& frames, size_t still)
      : film_(frames), still_(film_.moment_of(still)) {}
  std::string text(const Room& room, const std::string& title);

 private:
  std::string percent(float second) const;
  const Look& rest_of(const Element& element) const;
  std::string keyframes(const Element& element) const;
  std::string drawn(SvgPen& pen, const Element& element);

  Film film_;
  const float still_;  // the moment that is shown where nothing may move
  std::string style_;
  std::unordered_map<std::string, std::string> names_;  // of the rules that elements share
};

std::string Writer::percent(float second) const {
  const double thousandths = std::floor(
      100000 * std::clamp(static_cast<double>(second / film_.seconds()), 0.0, 1.0) + 0.501);
  std::string text = fmt::format("{:.3f}", thousandths / 1000);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + "%";
}

/// Look that the attributes give, for programs that read no style sheets: the still's.
const Look& Writer::rest_of(const Element& element) const {
  const auto next = element.keys.upper_bound(still_);
  return (next == element.keys.begin() ? next : std::prev(next))->second;
}

/// The point that a shape hangs on: a text in the middle keeps it when its place is narrower.
Place hook(const Shape& shape, const Place& at) {
  if (shape.kind != Shape::Kind::kText) return at;
  const float x = shape.align == Align::kCentre  ? at.middle_x()
                  : shape.align == Align::kRight ? at.right()
                                                 : at.x;
  return {x, at.middle_y(), 0, 0};
}

/// From one line to another: the same way for all of its points.
std::string turned(const Place& rest, const Place& at) {
  const auto scale = [](float from, float to) {
    return to / (std::abs(from) < 0.5f ? 0.5f : from);
  };
  const float x = scale(rest.w, at.w), y = scale(rest.h, at.h);
  return fmt::format("transform:translate({}px,{}px) scale({:.4f},{:.4f});",
                     svg_number(at.x - rest.x * x), svg_number(at.y - rest.y * y), x, y);
}

/// The rules that move an element from its place at rest, and paint it. Empty if nothing changes.
std::string Writer::keyframes(const Element& element) const {
  const Look& rest = rest_of(element);
  const Place home = hook(element.shape, rest.at);
  bool moves = false, resizes = false, fades = false, refills = false, redraws = false;
  for (const auto& [second, look] : element.keys) {
    const Place at = hook(element.shape, look.at);
    moves = moves || at.x != home.x || at.y != home.y;
    resizes = resizes || look.at.w != rest.at.w || look.at.h != rest.at.h;
    fades = fades || look.opacity != rest.opacity;
    refills = refills || !(look.fill == rest.fill);
    redraws = redraws || !(look.edge == rest.edge) || look.thickness != rest.thickness;
  }
  const bool is_line = element.shape.kind == Shape::Kind::kLine;
  const bool turns = is_line && resizes;
  moves = moves && !turns;
  resizes = resizes && element.shape.kind == Shape::Kind::kBox;
  if (!moves && !turns && !resizes && !fades && !refills && !redraws) return "";
  std::string rules, last;
  for (const auto& [second, look] : element.keys) {
    std::string rule;
    if (moves) {
      const Place at = hook(element.shape, look.at);
      rule += fmt::format("transform:translate({}px,{}px);", svg_number(at.x - home.x),
                          svg_number(at.y - home.y));
    }
    if (turns) rule += turned(rest.at, look.at);
    if (resizes) {
      rule += fmt::format("width:{}px;height:{}px;", svg_number(std::max(look.at.w, 0.0f)),
                          svg_number(std::max(look.at.h, 0.0f)));
    }
    if (fades) rule += fmt::format("opacity:{};", svg_number(look.opacity));
    const auto paint_rule = [&](const char* property, const Paint& paint) {
      const std::string strength =
          paint == soft(paint.hue) ? "var(--s)" : fmt::format("{:.2f}", paint.strength);
      rule += paint.ink == Ink::kNone ? fmt::format("{}-opacity:0;", property)
                                      : fmt::format("{0}:var(--{1});{0}-opacity:{2};", property,
                                                    svg_name(paint), strength);
    };
    if (refills) paint_rule("fill", look.fill);
    if (redraws) paint_rule("stroke", look.edge);
    if (redraws) rule += fmt::format("stroke-width:{}px;", svg_number(look.thickness));
    rule.pop_back();
    // The first state holds from the beginning, the last one to the end.
    std::string when = percent(second);
    if (second == element.keys.begin()->first && when != "0%") when = "0%," + when;
    if (second == element.keys.rbegin()->first && when != "100%") when += ",100%";
    rule = "{" + rule + "}";
    if (rule == last) {  // the moments of one state share a rule
      rules.insert(rules.size() - rule.size(), "," + when);
    } else {
      rules += when + rule;
    }
    last = std::move(rule);
  }
  return rules;
}

std::string Writer::drawn(SvgPen& pen, const Element& element) {
  const Look& rest = rest_of(element);
  Shape shape = element.shape;
  shape.at = rest.at;
  shape.fill = rest.fill;
  shape.edge = rest.edge;
  shape.thickness = rest.thickness;
  const std::string rules = keyframes(element);
  const bool hidden = rest.opacity <= 0;
  const bool turns = rules.find("scale(") != std::string::npos;
  if (turns) {  // see turned()
    for (float* side : {&shape.at.w, &shape.at.h}) {
      if (std::abs(*side) < 0.5f) *side = 0.5f;
    }
  }
  if (rules.empty()) return hidden ? "" : pen.draw(shape, "") + "\n";
  const auto [named, fresh] = names_.try_emplace(rules, fmt::format("k{}", names_.size()));
  const std::string& name = named->second;
  if (fresh) {
    style_ += fmt::format("@keyframes {0}{{{1}}}.{0}{{animation-name:{0}}}", name, rules);
  }
  return pen.draw(shape, fmt::format(" class='a {}'{}{}", name, hidden ? " opacity='0'" : "",
                                     turns ? " vector-effect='non-scaling-stroke'" : "")) +
         "\n";
}

std::string Writer::text(const Room& room, const std::string& title) {
  SvgPen pen;
  std::string below, travelling, above;
  for (const Element* each : film_.elements()) {
    const Element& one = *each;
    if (one.above || one.travels.empty()) {
      (one.above ? above : below) += drawn(pen, one);
    } else {
      below += drawn(pen, at_home(one));
      travelling += drawn(pen, on_the_way(one));
    }
  }
  // The still: for readers who want no motion, and for FILE.svg#still.
  const auto stands_still = [&](const char* where) {
    return fmt::format(
        "{0}.a{{animation-play-state:paused;animation-delay:-{1:.2f}s}}"
        "{0}.all{{animation:none}}",
        where, still_);
  };
  const std::string style = fmt::format(
      ".a{{animation:{0}s ease-in-out infinite}}"
      "@keyframes all{{0%,100%{{opacity:.4}}1%,99%{{opacity:1}}}}"
      ".all{{animation:all {0}s infinite}}{1}"
      "@media(prefers-reduced-motion:reduce){{{2}}}{3}",
      svg_number(film_.seconds()), style_, stands_still(""), stands_still(":target "));
  return svg_document(
      room, film_.caption_height(), title, style,
      pen.definitions() + "<g class='all'>\n" + below + travelling + above + "</g>\n");
}

}  // namespace

std::string svg_still(const Scene& scene, const std::string& title) {
  SvgPen pen;
  std::string body;
  for (const Drawn& one : at_rest(scene)) {
    if (is_in_files(one.shape)) body += pen.draw(one.shape, "") + "\n";
  }
  return svg_document(scene.room(), 0, title, "", pen.definitions() + body);
}

std::string svg_animation(const std::vector<Frame>& frames, const std::string& title,
                          size_t still) {
  const Room& room = frames.front().scene.room();
  return Writer(frames, std::min(still, frames.size() - 1)).text(room, title);
}

}  // namespace viz
