#pragma once

// The parts of the window, the size of the picture in it, and the scrolling of a picture that is
// larger than its place.

#include "viz/drawing/scene.h"

namespace viz {

/// The page's picture has most of the window, and the side is not there until more is wanted. The
/// parts keep their size, so that nothing jumps while a scenario plays. On a phone held upright the
/// side is below the picture, both scroll as one, and the player of a film has two rows. On a phone
/// held sideways the tabs are above the controls and the sentence below them, which leaves their
/// rows to the picture. In points.
struct WindowLayout {
  Place tabs;             // on top
  Place main;             // the page's picture
  Place actions;          // the large buttons below it
  Place counters;         // in a row above the picture; empty: they are in the side
  Place side;             // counters, controls, log
  Place page;             // of a phone held upright: it shows `main` and, scrolled, all of `side`
  Place way;              // below it: the button that scrolls there, and back
  Place sentence;         // what the scenario says, or what happened
  Place player;           // at the bottom
  bool on_phone = false;  // controls have room for a finger, and the picture scrolls
  bool upright = false;   // a phone held upright
};
inline constexpr float kFinger = 44;  // points: the least height of a control on a phone
inline constexpr float kSmall = 720;  // points: a window of less width is small
/// What there is in the window; what there is not leaves its room to the picture.
struct Parts {
  bool tabs = true, actions = false, side = true, player = true;
  bool folded = false;  // only a small window shows the side, which then lists the films, too
  bool film = true;     // the player has one: a phone held upright then has no large buttons
  float counters = 42;  // points: the height of the counters, if they are in a row of their own
};
WindowLayout window_layout(float width, float height, const Parts& parts = {});
/// The room for which a page lays out its picture: `main`, or that of a text, which is shown
/// smaller; if that would be too small, a narrow one that is as tall as it needs (PageInfo::tall).
Room picture_room(const WindowLayout& layout, float tall);
float picture_part(const WindowLayout& layout);  // its scale: 1 or less
/// The rows with all boxes of `now` that are new or have changed; empty if there are none. Boxes of
/// the legend and boxes that lie over others do not count.
Place changed_place(const Scene& before, const Scene& now);
/// The scroll position, closest to `scroll`, at which a view of `size` shows all of from .. to. If
/// that is too long, the view stays where it shows a part of it, or else goes to `from`.
float scrolled_to(float scroll, float size, float from, float to);

}  // namespace viz
