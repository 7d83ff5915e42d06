#pragma once

// The parts of the window, and what may be wrong with the picture of a page in it: measured, so
// that a test can demand that nothing is.

#include <string>
#include <vector>

#include "viz/drawing/palette.h"
#include "viz/drawing/scene.h"

namespace viz {

/// The page's picture has most of the window; what is beside and below it has one height and one
/// width, so that nothing jumps while a scenario plays. In a window as narrow as a phone's nothing
/// is beside it, and the player has two rows. In points.
struct WindowLayout {
  Place tabs;      // on top
  Place main;      // the page's picture
  Place side;      // counters, controls, log; below the picture in a narrow window
  Place sentence;  // what the scenario says
  Place player;    // at the bottom
  bool on_phone = false;
};
inline constexpr float kTouch = 32;  // points: the least height of a control for a finger
WindowLayout window_layout(float width, float height, bool tabs = true);
/// The place of the first screen, which takes the room of the side, too, on a phone.
Place cards_place(const WindowLayout& layout);
/// The room that a page lays its picture out in: `main`, or that of a text if `main` is narrower.
Room picture_room(const Place& main);
/// The size that the picture is drawn at: 1, or in a narrow window as small as its letters can be
/// read. Then it is panned.
float picture_part(const Place& main);

/// Faults that make a picture hard to read, each with its ids: texts that are cut, that
/// lie on one another, on an edge or beyond the room; boxes that are neither nested nor apart (but
/// for shapes that may lie over others); too little contrast, in the dark or the light theme; an id
/// that is there twice. At most 20.
std::vector<std::string> layout_faults(const Scene& scene);

/// Lists the marks of boxes that the picture's legend has no sample of: patterns, dashed edges, the
/// edges of errors and of changes, bars at the foot. Lists glyphs that their box contradicts, too.
std::vector<std::string> unexplained_marks(const Scene& scene);

/// Of two colours without transparency, 1 to 21, as WCAG 2 defines it.
double contrast(Colour a, Colour b);

class Page;
/// The same in windows of many sizes, and a picture that leaves most of the window empty.
std::vector<std::string> layout_faults(Page& page);

}  // namespace viz
