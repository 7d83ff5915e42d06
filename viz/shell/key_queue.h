#pragma once

// Keys and letters that come between two frames.

#include <deque>
#include <set>
#include <vector>

namespace viz {

/// Dear ImGui up to 1.86 looks at the keys once a frame: a key that went down and up since the last
/// frame was never down. On a slow machine Enter and Escape got lost so, and letters that came
/// after a ':' were taken for keys of the window before the field was there.
class KeyQueue {
 public:
  struct Event {
    unsigned letter = 0;  // 0: a key
    int key = 0, code = 0, action = 0, mods = 0;
    bool edits = false;  // Enter, Escape, an arrow, a key with Ctrl, and no letter
  };

  void add(const Event& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  /// Events for the next frame, in order. `types`: a text field has the keyboard; it sees one
  /// change of each key that edits in a frame, and letters that come after it in the next one.
  /// `changes`: a field is about to have it, or has just left it. All events but releases wait for
  /// that.
  std::vector<Event> take(bool types, bool changes) {
    constexpr int kPatience = 10;  // frames
    std::vector<Event> now;
    waited_ = changes && !events_.empty() ? waited_ + 1 : 0;
    if (waited_ > 0 && waited_ <= kPatience) {
      // A key that stayed down meanwhile would be repeated, and a repeated Enter ends the field.
      while (!events_.empty() && events_.front().letter == 0 && events_.front().action == 0) {
        now.push_back(events_.front());
        events_.pop_front();
      }
      return now;
    }
    std::set<int> changed;
    bool edited = false;
    while (!events_.empty()) {
      const Event& next = events_.front();
      if (types && (next.letter != 0 ? edited : changed.contains(next.key))) break;
      if (next.edits) edited = changed.insert(next.key).second;
      now.push_back(next);
      events_.pop_front();
      if (!types && now.back().letter == ':') break;
    }
    return now;
  }

 private:
  std::deque<Event> events_;
  int waited_ = 0;
};

}  // namespace viz
