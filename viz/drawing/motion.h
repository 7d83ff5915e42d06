#pragma once

// From one scene to the next: what has the same identity moves from where it was to where it is,
// what is new fades in, or comes from the place that its hint names, what is gone fades out.

#include <cstdint>
#include <vector>

#include "viz/drawing/scene.h"

namespace viz {

/// Whether a shape can be seen before, during and after its motion.
enum class Sight : uint8_t {
  kStays,     // always
  kFadesIn,   // more and more
  kFadesOut,  // less and less
  kSetsOut,   // from its beginning on
  kDeparts,   // until its end, where it fades
  kPasses,    // only during it
};

/// One shape on its way from `first` to `last`: place, size and paints differ, nothing else.
struct Track {
  Shape first, last;
  Sight sight = Sight::kStays;
  const Span& when() const { return last.when; }
  bool travels() const { return first.at != last.at; }
};

/// All shapes of the motion, in the order in which they are drawn.
std::vector<Track> tracks(const Scene& before, const Scene& after);

/// A shape as it is drawn at a moment: its paints may be on their way from others.
struct Drawn {
  Shape shape;
  Paint fill_was, edge_was;
  float mix = 1;  // 0: as they were
};
/// The picture at `t` of the motion, 0 to 1, without what cannot be seen.
std::vector<Drawn> at_moment(const std::vector<Track>& tracks, float t);
/// The picture when nothing moves.
std::vector<Drawn> at_rest(const Scene& scene);

/// Returns how opaque a shape is when `part` of its own motion is over.
float opacity(Sight sight, float part);
/// Slow at its beginning and its end.
float eased(float t);

}  // namespace viz
