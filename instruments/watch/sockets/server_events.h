#pragma once

// Frames in which ./course serve tells of its cache over HTTP: first the blocks that stand in it,
// then its events. The code knows no socket, so that a program and a browser can share it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "instruments/watch/kv_events.h"

namespace watch {

class ServerEvents {
 public:
  /// The data of an event of /kv_events. It must have been asked for before the snapshot, so that
  /// no event is missing between the two. Throws std::exception if one is missing later.
  void take_event(const std::string& data);
  /// The answer of /kv_snapshot.
  void take_snapshot(const std::string& text);
  /// The frames since the last call. The first one has the blocks that stood in the cache. Numbers
  /// are this object's own, from 0.
  std::vector<Frame> frames();
  bool any() const { return !ready_.empty(); }

 private:
  void hand_on(std::vector<Event> events);

  std::vector<std::string> early_;  // events that came before the snapshot
  std::optional<int64_t> last_;  // the server's number of the last one; empty before the snapshot
  uint64_t next_seq_ = 0;
  std::vector<Frame> ready_;
};

}  // namespace watch
