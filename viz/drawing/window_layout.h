#pragma once

// The parts of the window, the size of the picture in it, and how far a picture scrolls that is
// larger than its place.

#include "viz/drawing/scene.h"

namespace viz {

/// The page's picture has most of the window; what is beside and below it has one height and one
/// width, so that nothing jumps while a scenario plays. On a phone held upright nothing is beside
/// it, and the player has two rows. On a phone held sideways the sentence is below the controls,
/// which leaves its row to the picture. In points.
struct WindowLayout {
  Place tabs;             // on top
  Place main;             // the page's picture
  Place side;             // counters, controls, log; below the picture on a phone held upright
  Place sentence;         // what the scenario says
  Place player;           // at the bottom
  bool on_phone = false;  // controls have room for a finger, and the picture scrolls
  bool upright = false;   // a phone that is held so
};
inline constexpr float kTouch = 32;  // points: the least height of a control for a finger
WindowLayout window_layout(float width, float height, bool tabs = true);
/// The place of the first screen, which takes all but the tabs and the player on a phone.
Place cards_place(const WindowLayout& layout);
/// The room that a page lays its picture out in: that of `main`, or of a text on a phone and where
/// `main` is narrower.
Room picture_room(const WindowLayout& layout);
/// The size that the picture is drawn at: 1, or in a narrow window as small as its letters can be
/// read. Then it is panned.
float picture_part(const WindowLayout& layout);
/// The place around all boxes of `now` that are new or have changed, without the legend's and
/// those that lie over others; empty if nothing has.
Place changed_place(const Scene& before, const Scene& now);
/// How far a view of `size` has to be scrolled for from..to to be in it: no farther than needed.
/// A longer part stays where it is if some of it is in the view.
float scrolled_to(float scroll, float size, float from, float to);

}  // namespace viz
