#pragma once

// Transfers between the device and the host, on a stream of their own.

#include <deque>
#include <span>

#include "common/device.h"
#include "host_blocks.h"
#include "transfers.h"

namespace lesson11 {

/// On the CPU a job is complete when start() returns.
class BlockSwapper final : public Transfers {
 public:
  /// Borrows all three. `passes` is the stream on which the model runs.
  BlockSwapper(const BlockRegions& regions, const HostBlocks& host, const kv::Stream& passes);
  /// Waits for the jobs in flight.
  ~BlockSwapper() override;

  /// The copies begin after all work that is queued on `passes` now: it may still write what is
  /// offloaded, or read what a load overwrites.
  Job start(Direction direction, std::span<const BlockMove> moves) override;
  Job completed() override;
  void wait(Job job) override;

  /// Work queued on `passes` from now on begins after the job. The host does not wait.
  void let_passes_wait(Job job);
  /// Seconds to load a block, an exponential moving average over jobs; 0 before the first load.
  double seconds_per_block() const { return seconds_per_block_; }

 private:
  struct InFlight {
    Job job;
    size_t num_loaded;  // blocks; 0 for an offload
    kv::Event begin, end;
  };
  void complete_first();

  const BlockRegions& regions_;
  const HostBlocks& host_;
  const kv::Stream& passes_;
  kv::Stream stream_;
  kv::Event passes_so_far_;
  std::deque<InFlight> in_flight_;  // in the order they started
  Job last_ = 0;
  double seconds_per_block_ = 0;
};

/// The exponential moving average after one more sample; 0 means no sample yet.
inline double smoothed(double average, double sample) {
  return average == 0 ? sample : 0.75 * average + 0.25 * sample;
}

}  // namespace lesson11
