#pragma once

// A server's cache, as ./course serve tells it at GET /kv_events and GET /kv_snapshot. Events
// have numbers. After a lost connection the server replays what was missed, beginning with the last
// event that the mirror has: if that is another event now, the server is another one. What cannot
// be replayed comes as a snapshot.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace route {

class CacheMirror {
 public:
  /// Begins a stream of events. Returns the Last-Event-ID to send with the request, or empty.
  std::string begin_stream();
  /// Takes the stream's next bytes. Throws for bytes of no such stream.
  void take(std::string_view bytes);
  /// True if the mirror needs GET /kv_snapshot, which is asked for after the stream has begun.
  bool wants_snapshot() const { return state_ == State::kSnapshot; }
  void take_snapshot(std::string_view json);
  /// Nothing was replayed: the server has no events any more, so it is another one.
  void give_up_replay();
  /// Forgets everything: the server is gone.
  void clear();

  /// True if the blocks are those of the server's cache after its event last().
  bool is_exact() const { return state_ == State::kExact; }
  bool waits_for_replay() const { return state_ == State::kReplay; }
  bool has(uint64_t block) const { return copies_.contains(block); }
  int64_t num_blocks() const { return std::ssize(copies_); }  // different ones
  int64_t last() const { return last_; }                      // -1 before the first event
  int block_size() const { return block_size_; }              // 0 before the first snapshot
  int64_t pool_blocks() const { return pool_blocks_; }

  // How often.
  int64_t num_replays() const { return num_replays_; }      // a replay left no gap
  int64_t num_snapshots() const { return num_snapshots_; }  // a snapshot was taken
  int64_t num_restarts() const { return num_restarts_; }    // the server was another one

 private:
  enum class State { kSnapshot, kReplay, kExact };
  void take_event(const std::string& text);
  void apply(const std::string& text);

  State state_ = State::kSnapshot;
  std::unordered_map<uint64_t, int> copies_;  // by the block's hash
  int64_t last_ = -1;
  std::string last_text_;          // of event last_; empty if it came in a snapshot
  std::string unread_;             // of the stream, less than an event
  std::vector<std::string> held_;  // events that wait for the snapshot
  int block_size_ = 0;
  int64_t pool_blocks_ = 0;
  int64_t num_replays_ = 0, num_snapshots_ = 0, num_restarts_ = 0;
};

}  // namespace route
