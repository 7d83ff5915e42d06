#pragma once

// Transfers between the host's blocks and a file, by a thread of their own.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "block_file.h"
#include "host_blocks.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "transfers.h"

namespace lesson11 {

/// The upper block is one of the host's, the lower one a record.
class FileTransfers final : public Transfers {
 public:
  enum class Run {
    kThread,
    kAtOnce,  // a batch is done when start() returns: for platforms without threads, and for tests
  };
  /// Borrows all three. What a record holds, or is about to hold, `records` knows: its index has
  /// the key of every lower block when start() is called. Throws std::invalid_argument if their
  /// blocks are not of one size, or there are more of them than records.
  FileTransfers(BlockFile& file, const HostBlocks& host, const lesson07::BlockPool& records,
                Run run = Run::kThread);
  /// Finishes what was started, and syncs the file.
  ~FileTransfers() override;

  /// Throws std::logic_error for a lower block whose key is not known, std::out_of_range for an
  /// upper one that is not there; nothing is queued then.
  Ticket start(Way way, std::span<const BlockMove> moves) override;
  Ticket completed() override { return completed_.load(std::memory_order_acquire); }
  void wait(Ticket ticket) override;
  /// Records that were not read, or not written.
  std::vector<int32_t> take_damaged() override;
  void forget_all() override;
  double seconds_per_block() const override { return seconds_per_block_.load(); }

 private:
  /// A move with its own copy of the key: the thread never looks at the pool.
  struct Move {
    BlockMove blocks;
    RecordKey key;
  };
  struct Batch {
    Way way = Way::kDown;
    std::vector<Move> moves;
  };
  void serve();
  void run(const Batch& batch);
  bool copy(Way way, const Move& move);  // false: it was not read, or not written

  BlockFile* file_;
  const HostBlocks* host_;
  const lesson07::BlockPool* records_;
  Ticket last_ = 0;  // that was started
  std::atomic<Ticket> completed_{0};
  std::atomic<double> seconds_per_block_{0};

  std::mutex mutex_;  // guards the next three
  std::deque<Batch> queue_;
  std::vector<int32_t> damaged_;
  bool stop_ = false;
  std::condition_variable started_;
  std::condition_variable done_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace lesson11
