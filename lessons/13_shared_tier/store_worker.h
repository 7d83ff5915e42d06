#pragma once

// Trips to the store, on a thread of their own: the caller never waits for the network.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "block_store.h"
#include "lessons/11_host_tier/host_blocks.h"

namespace lesson13 {

using lesson11::HostBlocks;

/// A request's blocks, in the order of its tokens. First they are only looked up; with host blocks
/// to receive them they are fetched.
struct Fetch {
  int64_t number = 0;
  std::vector<BlockName> names;
  std::vector<int32_t> tokens;         // [names, block_size]
  std::vector<int32_t> host_ids = {};  // [names], or none
  bool wants_digests = false;

  // The answer.
  size_t num_found = 0;                  // of a lookup
  bool unreachable = false;              // the lookup had no answer
  std::vector<uint64_t> checksums = {};  // of the blocks that came whole, the first ones
  std::vector<Digest> digests = {};      // of their contents, if they are wanted
  int num_damaged = 0;                   // 1 if the block after them was damaged
  double seconds = 0;
};

/// A block of the host that goes to the store.
struct Put {
  BlockName name{};
  std::vector<int32_t> tokens;
  int32_t host_id = 0;
  uint64_t checksum = 0;              // as the device made it
  std::optional<Digest> stored = {};  // of the content that the store had under this name

  enum class Outcome {
    kPut,
    kNotPut,   // the store does not answer, or has no room
    kDamaged,  // it changed on its way to the host, and was not put
  };
  Outcome outcome = Outcome::kNotPut;
  bool poisoned = false;  // the store had other content: it has been replaced
};

class StoreWorker {
 public:
  enum class Run {
    kThread,
    kAtOnce,  // start() makes the trip: for platforms without threads, and for tests
  };
  /// Borrows the store and the host's blocks.
  StoreWorker(BlockStore& store, const HostBlocks& host, Run run);
  /// Waits for the trip under way, and forgets all others.
  ~StoreWorker();
  StoreWorker(const StoreWorker&) = delete;
  StoreWorker& operator=(const StoreWorker&) = delete;

  /// How values look from now on. There is no job.
  void set_format(const ValueFormat& format) { format_ = format; }
  /// Takes over these jobs. Their host blocks belong to the worker until they have been taken back.
  /// Jobs only move from list to list, so neither function can fail.
  void start(std::list<Fetch> fetches) noexcept;
  void start(std::list<Put> puts) noexcept;
  /// The first fetch that is done, or none; and all puts that are done.
  std::list<Fetch> take_fetch() noexcept;
  std::list<Put> take_puts() noexcept;
  /// Whether there is no job, and none to be taken back.
  bool idle();
  /// Returns when a job is done, after `longest`, or at once if there is no job.
  void wait(std::chrono::milliseconds longest);

 private:
  void run();
  void attempt(auto& jobs, auto& done, std::unique_lock<std::mutex>& lock) noexcept;
  void make(Fetch& fetch);
  void make(Put& put);

  BlockStore& store_;
  const HostBlocks& host_;
  ValueFormat format_;  // is read for a job, and set while there is none

  std::mutex mutex_;  // guards the next six
  std::list<Fetch> fetches_, done_fetches_;
  std::list<Put> puts_, done_puts_;
  bool is_busy_ = false;
  bool stop_ = false;
  std::condition_variable added_, done_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace lesson13
