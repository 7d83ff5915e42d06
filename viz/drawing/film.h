#pragma once

// Scenes laid on one line of time: what an animated file is made of. A shape that stays becomes one
// element with keys; it moves from key to key.

#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "viz/drawing/motion.h"
#include "viz/drawing/scene_svg.h"

namespace viz {

/// Changing part of an element: its place, its paint, its opacity.
struct Look {
  Place at;
  Paint fill, edge;
  float thickness = 0;  // of the edge
  float opacity = 1;
  bool operator==(const Look&) const = default;
};

struct Element {
  Shape shape;                 // as it is at rest
  std::map<float, Look> keys;  // by second
  bool above = false;          // lies over others
  // When it travels. Meanwhile its double is seen, which lies over what stands.
  std::vector<Span> travels = {};
};
/// The element without its travels, and nothing but them.
Element at_home(Element element);
Element on_the_way(const Element& element);

/// Whether a file has the shape: not what only the mouse shows, nor "hint/...", what to click.
bool is_in_files(const Shape& shape);

class Film {
 public:
  explicit Film(const std::vector<Frame>& frames);
  /// In the order in which they are drawn.
  std::vector<const Element*> elements() const;
  float seconds() const { return end_; }
  float caption_height() const { return caption_height_; }  // points below the scene
  /// The moment that stands for the film where nothing may move: at rest after this frame's motion.
  float moment_of(size_t frame) const { return ends_.at(frame) - 0.1f; }

 private:
  Element& element(const Shape& shape);
  void key(const Shape& shape, float second, float opacity);
  void add_order(const Scene& scene);
  void add(const Track& track, float from, float seconds);
  void add_travel(const Track& track, float begin, float end);
  void add_captions(const std::vector<Frame>& frames);
  void add_steps(float wide, float y);

  float end_ = 0;
  std::vector<float> ends_;  // of the frames
  std::list<std::string> order_;
  std::unordered_map<std::string, std::list<std::string>::iterator> placed_;
  std::unordered_map<std::string, Element> elements_;
  float caption_height_ = 0;
};

}  // namespace viz
