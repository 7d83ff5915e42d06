#pragma once

// Where a page has frames from: a recording, or a server that runs. A feed is no state of the page:
// it keeps what has come, and a step that an undo replays takes the same frames as the first time.

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "instruments/watch/sockets/listener.h"
#include "instruments/watch/watcher.h"

namespace watch {

class Feed {
 public:
  /// `what` is an endpoint or a recording. Of a server's frames the last `max_bytes` are kept, of a
  /// recording's all. Throws UserError.
  explicit Feed(const std::string& what, const std::string& replay_endpoint = {},
                size_t max_bytes = size_t{64} << 20);

  static bool is_endpoint(const std::string& what) { return what.find("://") != std::string::npos; }
  bool is_live() const { return listener_ != nullptr; }
  const std::string& name() const { return name_; }
  /// Throws std::out_of_range for a frame that was dropped, or is not here yet.
  const Frame& frame(size_t i) const { return frames_.at(i - num_dropped_); }
  /// All frames up to now: dropped, here, and those that a server has sent since.
  size_t size() const {
    return num_dropped_ + frames_.size() + (listener_ ? listener_->num_waiting() : 0);
  }
  /// Why no more frames can come; empty while they can.
  std::string error() const { return listener_ ? listener_->error() : ""; }

  /// Where a step ends that begins at frame `begin`: after `count` frames, or earlier if there are
  /// fewer. A count of 0 stands for one frame of a recording, and for all that a server has sent.
  /// Drops frames before `begin` if there are more than `max_bytes` of them.
  size_t end_of_step(size_t begin, int count);

  /// The first frames, which are kept no longer, and the cache as they left it.
  size_t num_dropped() const { return num_dropped_; }
  const Watcher& after_dropped() const { return after_dropped_; }

 private:
  void receive(size_t count);
  void drop_before(size_t begin);

  std::string name_;
  size_t max_bytes_;
  std::deque<Frame> frames_;
  size_t num_bytes_ = 0;  // of the payloads in frames_
  size_t num_dropped_ = 0;
  Watcher after_dropped_;
  std::map<std::pair<size_t, int>, size_t> ends_;  // of a server's steps, by `begin` and `count`
  std::unique_ptr<Listener> listener_;             // null: a recording
};

}  // namespace watch
