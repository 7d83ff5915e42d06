#pragma once

// What a pool tells, gathered into the batches that its watchers are sent.
//
// A block of lesson 10's later groups comes after a number that no event has told: group 0 has
// proved its prefix. No watcher could place it, so it is left out, and so is its removal.

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
  /// What was noted since the last call; no value if that is nothing. Where memory was too short
  /// to note all, a number is left out, so that a watcher sees a gap.
  std::optional<Frame> take(double ts);

 private:
  void note(const lesson07::CacheEvent& event) noexcept;
  void stored(const lesson07::CacheEvent& event);
  void removed(const lesson07::CacheEvent& event);

  /// The pool names a parent by its prefix's number, watchers by its hash.
  struct Prefix {
    uint64_t hash = 0;
    int num_blocks = 0;  // that hold it
  };
  std::map<lesson06::PrefixId, Prefix> prefixes_;
  std::map<int32_t, lesson06::PrefixId> prefix_of_;  // of each block that can be found
  std::vector<Event> events_;
  bool lost_ = false;
  uint64_t next_seq_ = 0;
};

}  // namespace watch
