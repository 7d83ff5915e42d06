#pragma once

// Mouse buttons that go down and up between two frames.

#include <deque>
#include <optional>

namespace viz {

/// Dear ImGui up to 1.86 looks at the mouse once a frame: of two clicks since the last frame it saw
/// one, at the place where the mouse was by then. So each frame gets the next change of a button,
/// with the place where that happened.
class MouseQueue {
 public:
  struct Event {
    int button = 0;
    bool down = false;
    float x = 0, y = 0;
  };

  void moves(float x, float y) { x_ = x, y_ = y; }
  void changes(int button, bool down) { events_.push_back({button, down, x_, y_}); }
  bool empty() const { return events_.empty(); }
  /// The change that the next frame sees, if there is one.
  std::optional<Event> take() {
    if (events_.empty()) return std::nullopt;
    const Event next = events_.front();
    events_.pop_front();
    return next;
  }

 private:
  std::deque<Event> events_;
  float x_ = 0, y_ = 0;
};

}  // namespace viz
