#pragma once

// A server's frames, over ZeroMQ or HTTP, received by a thread of their own, so that a window never
// waits for them. In a build without ZeroMQ the constructor throws UserError, as that of Subscriber
// does.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "instruments/watch/kv_events.h"

namespace watch {

class Listener {
 public:
  /// Subscribes like Subscriber, or attaches to http://HOST:PORT like HttpSource. Asks
  /// `replay_endpoint`, unless it is empty, for earlier and missing frames.
  explicit Listener(const std::string& endpoint, const std::string& replay_endpoint = {});
  ~Listener();

  /// Number of frames that have come and were not taken yet.
  size_t num_waiting() const;
  /// Takes the first of them, at most `max_frames`. Does not wait.
  std::vector<Frame> take(size_t max_frames);
  /// The reason why the thread has ended and no more frames come; empty while it listens.
  std::string error() const;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace watch
