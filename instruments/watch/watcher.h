#pragma once

// Frames as a watcher gets them. Some are missing, some come twice, some cannot be decoded, and a
// restarted server counts from 0.

#include <cstdint>
#include <optional>
#include <string>

#include "instruments/watch/event_mirror.h"
#include "instruments/watch/kv_events.h"

namespace watch {

struct Counts {
  int64_t batches = 0;     // applied
  int64_t missing = 0;     // batches that never came; INT64_MAX stands for more
  int64_t repeated = 0;    // batches that came again, and were skipped
  int64_t unreadable = 0;  // batches that could not be decoded
  int64_t senseless = 0;   // events of other batches that made no sense
  int64_t unknown = 0;     // events of unknown kinds
  int64_t restarts = 0;    // times that the server was started again
  int64_t unproven = 0;    // gaps and lost connections, after which it may be another server
  Changes changes;
};

class Watcher {
 public:
  struct Step {
    bool applied = false;
    double ts = 0;  // of the batch
    Changes changes;
    std::string note;  // a gap, a batch that makes no sense, ..; empty if all is well
  };
  Step take(const Frame& frame);

  /// True if this is the last frame that was taken. Numbers alone prove nothing: a restarted server
  /// uses them again. The time stamp of a batch makes the frames of two servers different.
  bool is_last(const Frame& frame) const {
    return next_seq_ > 0 && frame.seq == next_seq_ - 1 && frame.payload == last_payload_;
  }
  /// The server is another one, whose frames come next, from its first one on.
  void start_over();
  /// After a gap or a lost connection nothing proves that the server is the same.
  void doubt() { ++counts_.unproven; }

  /// True if frames from next_seq() on are missing before this one.
  bool misses_before(const Frame& frame) const { return frame.seq > next_seq_; }
  uint64_t next_seq() const { return next_seq_; }
  /// True if batches have come and none is missing, so that the mirror equals the cache.
  bool is_complete() const {
    return counts_.batches > 0 && counts_.missing == 0 && counts_.unreadable == 0 &&
           counts_.senseless == 0 && counts_.unknown == 0 && counts_.unproven == 0;
  }
  const EventMirror& mirror() const { return mirror_; }
  const Counts& counts() const { return counts_; }
  double first_ts() const { return first_ts_; }
  double last_ts() const { return last_ts_; }

 private:
  EventMirror mirror_;
  Counts counts_;
  uint64_t next_seq_ = 0;
  std::optional<int> rank_;  // the engine's, which counts its batches for itself
  std::string last_payload_;
  bool began_anew_ = false;  // and no step has told it
  double first_ts_ = 0, last_ts_ = 0;
};

}  // namespace watch
