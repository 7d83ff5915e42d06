#pragma once

// The events of the cache for browsers: the frames that vLLM sends over ZeroMQ, as server-sent
// events in JSON, with their numbers as ids. EventSource asks by itself for what it has missed.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "instruments/watch/event_mirror.h"

namespace serve {

class CacheEvents {
 public:
  /// Keeps the last frames, up to `max_kept` of them and `max_bytes` of text: less than a client
  /// may leave unread, so that what it missed can be sent at once.
  explicit CacheEvents(size_t max_kept = 10'000, size_t max_bytes = size_t{768} << 10)
      : max_kept_(max_kept), max_bytes_(max_bytes) {}

  /// Returns the frame as an event: "id: 7\ndata: {"seq":7,"ts":..,"events":[..]}\n\n". Each of its
  /// events has its name under "type" and vLLM's fields, and hashes in hexadecimal.
  std::string add(const watch::Frame& frame);
  /// The events after number `last`, as far as they are kept. A gap shows in their numbers.
  std::string after(uint64_t last) const;
  /// {"seq":..,"block_size":..,"num_blocks":..,"blocks":[{"hash","parent","token_ids","copies"}]}:
  /// the blocks after event `seq`, or -1 if no event has come, in the order in which they were
  /// stored. A parent is null before the first block of a prompt, and "" if it was evicted.
  std::string snapshot(int block_size, int num_blocks) const;

 private:
  struct Kept {
    uint64_t seq;
    std::string text;
  };
  watch::EventMirror mirror_{0};
  std::optional<uint64_t> last_;
  std::deque<Kept> kept_;
  size_t num_bytes_ = 0;
  size_t max_kept_, max_bytes_;
};

}  // namespace serve
