#include "viz/drawing/film.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "viz/drawing/svg_pen.h"

namespace viz {
namespace {

constexpr float kCaption = 17;   // points of its text
constexpr float kSteps = 12;     // points of the line with the steps
constexpr float kBlink = 0.01f;  // seconds: as good as at once

Look look_of(const Shape& shape, float opacity) {
  return {shape.at, shape.fill, shape.edge, shape.thickness, opacity * shape.opacity};
}

/// Everything that cannot change without becoming another element.
std::string key_of(const Shape& shape) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}", shape.id, static_cast<int>(shape.kind),
                                shape.text, static_cast<int>(shape.pattern), shape.dashed,
                                shape.struck, svg_number(shape.size));
  // A path has its size in it.
  if (shape.arrow || shape.pattern == Pattern::kCrossed) {
    key += fmt::format("|{}|{}", svg_number(shape.at.w), svg_number(shape.at.h));
  }
  // A pattern is an own part, whose paint must not change with the box's.
  if (shape.pattern != Pattern::kPlain || shape.arrow) {
    key += fmt::format("|{}{}|{}{}", svg_name(shape.fill), shape.fill.strength,
                       svg_name(shape.edge), shape.edge.strength);
  }
  return key;
}

}  // namespace

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
    ends_.push_back(end_);
  }
  add_captions(frames);
  const Room& room = frames.front().scene.room();
  if (frames.size() > 2) add_steps(room.w, room.h + caption_height_ + 6);
}

/// Below all: a line that fills as time goes by, with a mark where each step begins.
void Film::add_steps(float wide, float y) {
  const auto x_of = [&](float second) { return wide * second / end_; };
  Scene line({wide, y + kSteps});
  line.box("film/time", {0, y, wide, 3}, paint(Ink::kCell)).radius = 1;
  Shape done = line.box("film/done", {0, y, wide, 3}, paint(Ink::kDim));
  done.radius = 1;
  key(line.shapes()[0], 0, 1);
  float begin = 0;
  for (const float end : ends_) {
    done.at.w = x_of(begin);
    key(done, begin, 1);
    if (begin > 0) {
      key(line.box(fmt::format("film/step {}", begin), {x_of(begin) - 1, y - 2, 2, 7},
                   paint(Ink::kDim)),
          0, 1);
    }
    begin = end;
  }
  done.at.w = wide;
  key(done, end_, 1);
  caption_height_ += kSteps;
}

bool is_in_files(const Shape& shape) { return !shape.only_lit && !shape.id.starts_with("hint/"); }

/// The place of a shape's element among the others: after what is below it in its scene, and a box
/// before what is in it, wherever that was until now.
void Film::add_order(const Scene& scene) {
  auto next = order_.begin();
  const std::vector<Shape>& shapes = scene.shapes();
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!is_in_files(shapes[i])) continue;
    std::string key = key_of(shapes[i]);
    if (const auto found = placed_.find(key); found != placed_.end()) {
      next = std::next(found->second);
      continue;
    }
    auto spot = next;
    if (shapes[i].kind == Shape::Kind::kBox) {
      std::unordered_set<std::string> inside;
      for (size_t j = i + 1; j < shapes.size(); ++j) {
        if (shapes[i].at.holds(shapes[j].at)) inside.insert(key_of(shapes[j]));
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
  if (is_in_files(shape)) element(shape).keys[second] = look_of(shape, opacity);
}

void Film::add(const Track& track, float from, float seconds) {
  const float begin = from + track.when().begin * seconds, end = from + track.when().end * seconds;
  const bool one = key_of(track.first) == key_of(track.last);
  if (track.sight == Sight::kStays && one) {
    if (look_of(track.first, 1) == look_of(track.last, 1)) return;
    key(track.first, begin, 1);
    key(track.last, end, 1);
  } else if (track.sight == Sight::kStays && track.first.text != track.last.text) {
    // One text goes before the next one comes: their boxes grow and shrink meanwhile.
    key(track.first, begin, 1);
    key(track.first, begin + 0.2f * (end - begin), 0);
    key(track.last, begin + 0.6f * (end - begin), 0);
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
  if (track.travels() && track.last.kind != Shape::Kind::kLine && end - begin >= 4 * kBlink) {
    add_travel(track, begin, end);
  }
}

void Film::add_travel(const Track& track, float begin, float end) {
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

std::vector<const Element*> Film::elements() const {
  std::vector<const Element*> all;
  for (const std::string& key : order_) {
    const auto found = elements_.find(key);
    if (found != elements_.end() && !found->second.keys.empty()) all.push_back(&found->second);
  }
  return all;
}

}  // namespace viz
