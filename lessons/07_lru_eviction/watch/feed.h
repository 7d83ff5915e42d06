#pragma once

// Where a page has frames from: a recording, or a server that runs. A feed is no state of the page:
// it keeps all that has come, and what a step took the first time it takes again, whenever an undo
// replays it.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "listener.h"

namespace lesson07::watch {

class Feed {
 public:
  /// `what`: an endpoint, or a recording. Throws UserError.
  explicit Feed(const std::string& what, const std::string& replay_endpoint = {});

  static bool is_endpoint(const std::string& what) { return what.find("://") != std::string::npos; }
  bool is_live() const { return listener_ != nullptr; }
  const std::string& name() const { return name_; }
  const Frame& frame(size_t i) const { return frames_.at(i); }
  /// Frames that are here, and of a server those that have come since.
  size_t size() const { return frames_.size() + (listener_ ? listener_->num_waiting() : 0); }

  /// Where a step ends that begins at frame `begin`: after `count` frames, or as many as there are.
  /// 0: after one of a recording, and after all that have come from a server.
  size_t end_of_step(size_t begin, int count);

 private:
  std::string name_;
  std::vector<Frame> frames_;
  std::map<std::pair<size_t, int>, size_t> ends_;  // of a server, by `begin` and `count`
  std::unique_ptr<Listener> listener_;             // none: a recording
};

}  // namespace lesson07::watch
