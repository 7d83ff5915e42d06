#pragma once

// The source of a page's frames: a recording or a running server. A feed is not part of the page's
// state. It keeps the frames that have come, so a step that an undo replays takes the same frames.

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

  /// True for a ./course serve, whose feed begins with what is in its cache.
  static bool is_http(const std::string& what);
  static bool is_endpoint(const std::string& what) { return what.find("://") != std::string::npos; }
  bool is_live() const { return listener_ != nullptr; }
  const std::string& name() const { return name_; }
  /// Throws std::out_of_range for a frame that was dropped, or is not here yet.
  const Frame& frame(size_t i) const { return frames_.at(i - num_dropped_); }
  /// All frames up to now: dropped, here, and those that a server has sent since.
  size_t size() const {
    return num_dropped_ + frames_.size() + (listener_ ? listener_->num_waiting() : 0);
  }
  /// The reason why no more frames can come; empty while they can.
  std::string error() const { return listener_ ? listener_->error() : ""; }

  /// The end of a step that begins at frame `begin`: `count` frames later, or earlier if there are
  /// fewer. A count of 0 means one frame of a recording, or all frames that a server has sent.
  /// A server's frames before `begin` are dropped when all that are kept have over `max_bytes`.
  size_t end_of_step(size_t begin, int count);

  /// The number of dropped frames at the front, and the cache after them.
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
  std::unique_ptr<Listener> listener_;             // null for a recording
};

}  // namespace watch
