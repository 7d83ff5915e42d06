#include "viz/scene_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <list>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "viz/motion.h"
#include "viz/svg_pen.h"

namespace viz {
namespace {

constexpr float kCaption = 17;   // points of its text
constexpr float kBlink = 0.01f;  // seconds: as good as at once

/// What changes in an element while it is one: where it is, how it is painted, how much is seen.
struct Look {
  Place at;
  Paint fill, edge;
  float opacity = 1;
  bool operator==(const Look&) const = default;
};
Look look_of(const Shape& shape, float opacity) {
  return {shape.at, shape.fill, shape.edge, opacity * shape.opacity};
}

struct Element {
  Shape shape;                 // as it is at rest
  std::map<float, Look> keys;  // by second
  bool above = false;          // lies over others
  // When it travels. Meanwhile its double is seen, which lies over what stands.
  std::vector<Span> travels = {};
};

bool holds(const Place& box, const Place& other) {
  return other.x >= box.x && other.y >= box.y && other.right() <= box.right() &&
         other.bottom() <= box.bottom();
}

/// The element without its travels.
Element at_home(Element element) {
  std::map<float, Look>& keys = element.keys;
  for (const auto& [begin, end] : element.travels) {
    const Look first = keys.at(begin), last = keys.at(end);
    keys.erase(std::next(keys.find(begin)), keys.find(end));
    for (const auto& [second, look] : {std::pair(begin + kBlink, first), {end - kBlink, last}}) {
      keys[second] = look;
      keys[second].opacity = 0;
    }
  }
  return element;
}

/// Nothing but its travels.
Element on_the_way(const Element& element) {
  Element way{.shape = element.shape, .keys = {}};
  for (const auto& [begin, end] : element.travels) {
    const auto first = element.keys.find(begin), last = element.keys.find(end);
    for (auto key = first; key != std::next(last); ++key) way.keys.insert(*key);
    for (const auto& [second, look] : {std::pair(begin - kBlink, *first), {end + kBlink, *last}}) {
      way.keys[second] = look.second;
      way.keys[second].opacity = 0;
    }
  }
  return way;
}

/// Its ends can go anywhere: it is scaled, and keeps its thickness.
bool is_straight(const Shape& line) { return line.bend == 0 && !line.arrow; }

/// Everything that cannot change without becoming another element.
std::string key_of(const Shape& shape) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}", shape.id, static_cast<int>(shape.kind),
                                shape.text, static_cast<int>(shape.pattern), shape.dashed,
                                shape.struck, svg_number(shape.size));
  // A path has its size in it.
  const bool is_bent = shape.kind == Shape::Kind::kLine && !is_straight(shape);
  if (is_bent || shape.pattern == Pattern::kCrossed) {
    key += fmt::format("|{}|{}|{}", svg_number(shape.at.w), svg_number(shape.at.h),
                       svg_number(shape.bend));
  }
  // A pattern is an own part, whose paint must not change with the box's.
  if (shape.pattern != Pattern::kPlain || shape.arrow) {
    key += fmt::format("|{}{}|{}{}", svg_name(shape.fill), shape.fill.strength,
                       svg_name(shape.edge), shape.edge.strength);
  }
  return key;
}

/// All frames laid on one line of time.
class Film {
 public:
  explicit Film(const std::vector<Frame>& frames);
  std::string text(const Room& room, const std::string& title);

 private:
  Element& element(const Shape& shape);
  void key(const Shape& shape, float second, float opacity);
  void add_order(const Scene& scene);
  void add(const Track& track, float from, float seconds);
  void add_captions(const std::vector<Frame>& frames);
  std::string percent(float second) const;
  std::string keyframes(const Element& element) const;
  std::string drawn(SvgPen& pen, const Element& element);

  float end_ = 0;
  std::list<std::string> order_;
  std::unordered_map<std::string, std::list<std::string>::iterator> placed_;
  std::unordered_map<std::string, Element> elements_;
  float caption_height_ = 0;
  std::string style_;
  std::unordered_map<std::string, std::string> names_;  // of the rules that elements share
};

Film::Film(const std::vector<Frame>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    add_order(frame.scene);
    if (i == 0) {
      for (const Shape& shape : frame.scene.shapes()) key(shape, 0, 1);
    } else {
      for (const Track& track : tracks(frames[i - 1].scene, frame.scene)) {
        add(track, end_, frame.motion);
      }
      end_ += frame.motion;
    }
    end_ += frame.hold;
  }
  add_captions(frames);
}

/// The place of a shape's element among the others: after what is below it in its scene, and a box
/// before what stands in it, wherever that was until now.
void Film::add_order(const Scene& scene) {
  auto next = order_.begin();
  const std::vector<Shape>& shapes = scene.shapes();
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].only_lit) continue;
    std::string key = key_of(shapes[i]);
    if (const auto found = placed_.find(key); found != placed_.end()) {
      next = std::next(found->second);
      continue;
    }
    auto spot = next;
    if (shapes[i].kind == Shape::Kind::kBox) {
      std::unordered_set<std::string> inside;
      for (size_t j = i + 1; j < shapes.size(); ++j) {
        if (holds(shapes[i].at, shapes[j].at)) inside.insert(key_of(shapes[j]));
      }
      for (auto at = order_.begin(); at != spot; ++at) {
        if (inside.contains(*at)) {
          spot = at;
          break;
        }
      }
    }
    const auto place = order_.insert(spot, key);
    placed_.emplace(std::move(key), place);
    if (spot == next) next = std::next(place);
  }
}

Element& Film::element(const Shape& shape) {
  const std::string key = key_of(shape);
  if (!placed_.contains(key)) placed_.emplace(key, order_.insert(order_.end(), key));
  Element& found = elements_[key];
  found.shape = shape;
  found.above = found.above || shape.over;
  return found;
}

void Film::key(const Shape& shape, float second, float opacity) {
  if (!shape.only_lit) element(shape).keys[second] = look_of(shape, opacity);
}

void Film::add(const Track& track, float from, float seconds) {
  const float begin = from + track.when().begin * seconds, end = from + track.when().end * seconds;
  const bool one = key_of(track.first) == key_of(track.last);
  if (track.sight == Sight::kStays && one) {
    if (look_of(track.first, 1) == look_of(track.last, 1)) return;
    key(track.first, begin, 1);
    key(track.last, end, 1);
  } else if (track.sight == Sight::kStays) {  // for this file it is another element
    Shape gone = track.first, fresh = track.last;
    gone.at = {track.last.at.x, track.last.at.y, gone.at.w, gone.at.h};
    fresh.at = {track.first.at.x, track.first.at.y, fresh.at.w, fresh.at.h};
    key(track.first, begin, 1);
    key(gone, end, 0);
    key(fresh, begin, 0);
    key(track.last, end, 1);
  } else {
    // Unseen until it begins, unless it was there; unseen after its end, unless it stays.
    const float at_begin = opacity(track.sight, 1e-3f), at_end = opacity(track.sight, 0.999f);
    const float before = opacity(track.sight, 0), after = opacity(track.sight, 1);
    const bool leaves = track.sight == Sight::kFadesOut || track.sight == Sight::kDeparts;
    const Shape& first = one || leaves ? track.first : track.last;
    const Shape& last = one || !leaves ? track.last : track.first;
    if (std::abs(before - at_begin) > 0.5f) key(first, begin - kBlink, before);
    key(first, begin, at_begin > 0.5f ? 1.0f : 0.0f);
    if (track.sight == Sight::kDeparts) {
      Shape almost = last;
      almost.at.x = first.at.x + 0.8f * (last.at.x - first.at.x);
      almost.at.y = first.at.y + 0.8f * (last.at.y - first.at.y);
      key(almost, begin + 0.75f * (end - begin), 1);
    }
    key(last, end, at_end > 0.5f ? 1.0f : 0.0f);
    if (std::abs(after - at_end) > 0.5f) key(last, end + kBlink, after);
  }
  // A struck text takes the place of the one that was not.
  if (track.sight == Sight::kDeparts && track.first.struck) {
    Shape plain = track.first;
    plain.struck = false;
    key(track.first, begin - kBlink, 0);
    key(plain, begin - kBlink, 1);
    key(plain, begin, 0);
  }
  if (!track.travels() || track.last.kind == Shape::Kind::kLine || end - begin < 4 * kBlink) return;
  for (const std::string& name : {key_of(track.first), key_of(track.last)}) {
    const auto found = elements_.find(name);
    if (found == elements_.end() || !found->second.keys.contains(begin) ||
        !found->second.keys.contains(end)) {
      continue;
    }
    std::vector<Span>& travels = found->second.travels;
    if (travels.empty() || travels.back() != Span{begin, end}) travels.push_back({begin, end});
  }
}

void Film::add_captions(const std::vector<Frame>& frames) {
  const Type type{.size = kCaption};
  const float wide = frames.front().scene.room().w;
  size_t lines = 0;
  for (const Frame& frame : frames) {
    lines = std::max(lines, wrapped(frame.caption, kCaption, wide).size());
  }
  if (lines == 0) return;
  caption_height_ = 1.4f * kCaption * static_cast<float>(lines) + 14;
  float second = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    const float begin = second, shown = frames[i].motion + frames[i].hold;
    second += i == 0 ? frames[i].hold : shown;
    if (i > 0 && frames[i].caption == frames[i - 1].caption) continue;
    float until = second;
    size_t next = i + 1;
    for (; next < frames.size() && frames[next].caption == frames[i].caption; ++next) {
      until += frames[next].motion + frames[next].hold;
    }
    Scene words(frames[i].scene.room());
    words.paragraph(fmt::format("caption {}", i), {0, words.room().h + 14, wide, 0},
                    frames[i].caption, type);
    for (const Shape& line : words.shapes()) {
      if (i > 0) key(line, begin - kBlink, 0);
      key(line, begin, 1);
      if (next < frames.size()) {
        key(line, until - kBlink, 1);
        key(line, until, 0);
      }
    }
  }
}

std::string Film::percent(float second) const {
  const double thousandths =
      std::floor(100000 * std::clamp(static_cast<double>(second / end_), 0.0, 1.0) + 0.501);
  std::string text = fmt::format("{:.3f}", thousandths / 1000);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + "%";
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
std::string Film::keyframes(const Element& element) const {
  const Look& rest = element.keys.rbegin()->second;
  const Place home = hook(element.shape, rest.at);
  bool moves = false, resizes = false, fades = false, refills = false, redraws = false;
  for (const auto& [second, look] : element.keys) {
    const Place at = hook(element.shape, look.at);
    moves = moves || at.x != home.x || at.y != home.y;
    resizes = resizes || look.at.w != rest.at.w || look.at.h != rest.at.h;
    fades = fades || look.opacity != rest.opacity;
    refills = refills || !(look.fill == rest.fill);
    redraws = redraws || !(look.edge == rest.edge);
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
      rule += paint.ink == Ink::kNone ? fmt::format("{}-opacity:0;", property)
                                      : fmt::format("{0}:{1};{0}-opacity:{2:.2f};", property,
                                                    svg_colour(paint), paint.strength);
    };
    if (refills) paint_rule("fill", look.fill);
    if (redraws) paint_rule("stroke", look.edge);
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

std::string Film::drawn(SvgPen& pen, const Element& element) {
  const Look& rest = element.keys.rbegin()->second;
  Shape shape = element.shape;
  shape.at = rest.at;
  shape.fill = rest.fill;
  shape.edge = rest.edge;
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

std::string Film::text(const Room& room, const std::string& title) {
  SvgPen pen;
  std::string below, travelling, above;
  for (const std::string& key : order_) {
    const auto found = elements_.find(key);
    if (found == elements_.end() || found->second.keys.empty()) continue;
    const Element& one = found->second;
    if (one.above || one.travels.empty()) {
      (one.above ? above : below) += drawn(pen, one);
    } else {
      below += drawn(pen, at_home(one));
      travelling += drawn(pen, on_the_way(one));
    }
  }
  const std::string style = fmt::format(
      ".a{{animation:{0}s ease-in-out infinite}}"
      "@keyframes all{{0%,100%{{opacity:0}}1%,99%{{opacity:1}}}}"
      ".all{{animation:all {0}s infinite}}{1}"
      "@media(prefers-reduced-motion:reduce){{.a,.all{{animation:none}}}}",
      svg_number(end_), style_);
  return svg_document(
      room, caption_height_, title, style,
      pen.definitions() + "<g class='all'>\n" + below + travelling + above + "</g>\n");
}

}  // namespace

std::string svg_still(const Scene& scene, const std::string& title) {
  SvgPen pen;
  std::string body;
  for (const Drawn& one : at_rest(scene)) {
    if (!one.shape.only_lit) body += pen.draw(one.shape, "") + "\n";
  }
  return svg_document(scene.room(), 0, title, "", pen.definitions() + body);
}

std::string svg_animation(const std::vector<Frame>& frames, const std::string& title) {
  return Film(frames).text(frames.front().scene.room(), title);
}

}  // namespace viz
