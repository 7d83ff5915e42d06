#pragma once

// Copies of blocks between two neighbouring pools, beside everything else that runs. Source: vLLM's
// OffloadingHandler (v0.22.1: vllm/v1/kv_offload/worker/worker.py).

#include <cstdint>
#include <span>
#include <vector>

namespace lesson11 {

/// A batch of copies. Batches are numbered as they are started, from 1 on; 0 is before them all.
using Ticket = int64_t;

enum class Way {
  kDown,  // away from the device: a block sinks
  kUp,    // towards it: a block rises
};

/// A block of the upper pool and one of the lower pool; `Way` says which is copied to which.
struct BlockMove {
  int32_t upper = 0;
  int32_t lower = 0;
  friend bool operator==(const BlockMove&, const BlockMove&) = default;
};

/// Measurements so far, with one more; single ones jump. 0: there was none.
inline double smoothed(double before, double now) {
  return before == 0 ? now : 0.75 * before + 0.25 * now;
}

/// Batches are done in the order in which they are started: what is queued later sees what was
/// queued earlier, so two batches may name one block.
class Transfers {
 public:
  virtual ~Transfers() = default;
  /// Queues a batch, and returns at once. The blocks copied from hold their content until it is
  /// done, and nobody uses the blocks copied to.
  virtual Ticket start(Way way, std::span<const BlockMove> moves) = 0;
  /// All batches up to this one are done.
  virtual Ticket completed() = 0;
  /// Returns when the batch is done.
  virtual void wait(Ticket ticket) = 0;
  /// Of the batches that are done: lower blocks that could not be read as they were written. They
  /// are named once.
  virtual std::vector<int32_t> take_damaged() { return {}; }
  /// Nothing is under way: what the lower blocks hold must not come back, after a restart neither.
  virtual void forget_all() {}
  /// What a block took on its way up, lately; 0: nobody knows.
  virtual double seconds_per_block() const { return 0; }
};

}  // namespace lesson11
