#pragma once

// A server's frames, gathered by a thread of their own: whoever draws a window never waits for
// them, and nothing is lost while nobody asks. In a build without ZeroMQ the constructor throws
// UserError, as that of Subscriber does.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kv_events.h"

namespace lesson07::watch {

class Listener {
 public:
  /// As of Subscriber. What came before is asked for at `replay_endpoint`, if there is one, and
  /// what is missing, too.
  explicit Listener(const std::string& endpoint, const std::string& replay_endpoint = {});
  ~Listener();

  /// Frames that have come, and that nobody has taken.
  size_t num_waiting() const;
  /// The first of them, at most so many. Does not wait.
  std::vector<Frame> take(size_t most);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace lesson07::watch
