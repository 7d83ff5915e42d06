#pragma once

// Gathers a pool's events into the batches that its watchers are sent.
//
// In lesson 10, a block of a later group names a parent that no event has told, because group 0 has
// proved its prefix. A watcher could not place such a block, so its store and removal are left out.

#include <map>
#include <optional>

#include "instruments/watch/kv_events.h"
#include "lessons/07_lru_eviction/block_pool.h"

namespace watch {

/// Give sink() to one pool before anything is cached, or to several, one after the other. Blocks of
/// one prefix that are stored one after the other become one event.
class EventLog {
 public:
  EventLog() = default;
  EventLog(const EventLog&) = delete;  // its sink points to it
  EventLog& operator=(const EventLog&) = delete;

  lesson07::EventSink sink() {
    return [this](const lesson07::CacheEvent& event) { note(event); };
  }
  /// The events noted since the last call; empty if there are none. If memory was too short to note
  /// them all, a batch number is left out, so that a watcher sees a gap.
  std::optional<Frame> take(double ts);

 private:
  void note(const lesson07::CacheEvent& event) noexcept;
  void stored(const lesson07::CacheEvent& event);
  void removed(const lesson07::CacheEvent& event);

  /// The pool names a parent by its prefix's number, watchers by its hash.
  struct Prefix {
    uint64_t hash = 0;
    int num_blocks = 0;  // blocks that hold it
  };
  std::map<lesson06::PrefixId, Prefix> prefixes_;
  std::map<int32_t, lesson06::PrefixId> prefix_of_;  // of each block that can be found
  std::vector<Event> events_;
  bool lost_ = false;
  uint64_t next_seq_ = 0;
};

}  // namespace watch
