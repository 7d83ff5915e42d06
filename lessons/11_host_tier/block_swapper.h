#pragma once

// Transfers between the device and the host, on a stream of their own.

#include <deque>
#include <span>

#include "common/base/device.h"
#include "host_blocks.h"
#include "transfers.h"

namespace lesson11 {

/// On the CPU a batch is done when start() returns.
class BlockSwapper final : public Transfers {
 public:
  /// Borrows all three. `passes` is the stream on which the model runs.
  BlockSwapper(PagedKvCache& cache, const HostBlocks& host, const kv::Stream& passes);
  /// Waits for what is under way.
  ~BlockSwapper() override;

  /// Begins when what is queued on `passes` now is done: that may still write what sinks, and read
  /// what is overwritten.
  Ticket start(Way way, std::span<const BlockMove> moves) override;
  Ticket completed() override;
  void wait(Ticket ticket) override;
  double seconds_per_block() const override { return seconds_per_block_; }

  /// What is queued on `passes` from now on begins after this batch. The host does not wait.
  void let_passes_wait(Ticket ticket);

 private:
  struct Batch {
    Ticket ticket;
    size_t num_risen;  // blocks; 0: they sink
    kv::Event begin, end;
  };
  void finish_first();

  PagedKvCache& cache_;
  const HostBlocks& host_;
  const kv::Stream& passes_;
  kv::Stream stream_;
  kv::Event passes_so_far_;
  std::deque<Batch> under_way_;  // in order
  Ticket last_ = 0;
  double seconds_per_block_ = 0;
};

}  // namespace lesson11
