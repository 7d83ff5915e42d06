#pragma once

// Work that takes turns with its starter: it runs when the starter lets it go on, and stops in the
// middle of a call when it hands back the turn. On a desktop it has a thread (turns_thread.cpp). A
// browser has threads only with special headers from its server, so there the work has a stack of
// its own (turns_fiber.cpp).

#include <functional>
#include <memory>

namespace viz {

class Turns {
 public:
  /// Nothing runs before the first go_on().
  explicit Turns(std::function<void()> work);
  /// The work must have ended.
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// From outside: the work goes on until it stands still again, or ends.
  void go_on();
  /// From within the work: waits for the next go_on().
  void stand_still();

 private:
  struct Sides;
  std::unique_ptr<Sides> sides_;
};

}  // namespace viz
