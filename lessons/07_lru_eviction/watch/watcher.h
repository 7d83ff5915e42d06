#pragma once

// Frames one after the other, as a watcher gets them: some are missing, some come twice, some make
// no sense, and now and then the server begins anew.

#include <cstdint>
#include <string>

#include "event_mirror.h"
#include "kv_events.h"

namespace lesson07::watch {

struct Counts {
  int64_t batches = 0;     // that were applied
  int64_t missing = 0;     // numbers that never came
  int64_t repeated = 0;    // came again, and were passed over
  int64_t unreadable = 0;  // made no sense
  int64_t unknown = 0;     // events with a name that is not known here
  int64_t restarts = 0;    // times that the server began anew
  Changes changes;
};

class Watcher {
 public:
  struct Step {
    bool applied = false;
    double ts = 0;  // of the batch
    Changes changes;
    std::string note;  // what is worth a line: a gap, a batch that makes no sense; or nothing
  };
  Step take(const Frame& frame);

  /// Whether frames are missing before this one: they can be asked for, from next_seq() on.
  bool misses_before(const Frame& frame) const { return frame.seq > next_seq_; }
  uint64_t next_seq() const { return next_seq_; }
  /// Nothing was missed: what stands in the mirror is what stands in the cache.
  bool is_complete() const {
    return counts_.missing == 0 && counts_.unreadable == 0 && counts_.unknown == 0;
  }
  const EventMirror& mirror() const { return mirror_; }
  const Counts& counts() const { return counts_; }
  double first_ts() const { return first_ts_; }
  double last_ts() const { return last_ts_; }

 private:
  EventMirror mirror_;
  Counts counts_;
  uint64_t next_seq_ = 0;
  double first_ts_ = 0, last_ts_ = 0;
};

}  // namespace lesson07::watch
