#include "instruments/watch/sockets/catch_up.h"

#include <optional>

namespace watch {

bool catch_up(Subscriber& subscriber, Watcher& watcher, std::chrono::milliseconds time,
              const std::function<void(const Frame&)>& take) {
  const uint64_t next = watcher.next_seq();
  if (next == 0) return subscriber.replay(0, time, take);
  std::optional<bool> is_same;
  const bool answered = subscriber.replay(next - 1, time, [&](const Frame& frame) {
    if (!is_same && frame.seq >= next) {  // the server keeps only later ones, and proves nothing
      is_same = true;
      watcher.doubt();
    }
    if (!is_same) is_same = watcher.is_last(frame);
    if (*is_same && frame.seq >= next) take(frame);
  });
  if (!answered) {
    if (!is_same) watcher.doubt();
    return false;
  }
  if (is_same.value_or(false)) return true;
  // Another last frame, or none up to that number: this server has not come as far.
  watcher.start_over();
  return subscriber.replay(0, time, take);
}

}  // namespace watch
