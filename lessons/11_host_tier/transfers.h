#pragma once

// Copies of blocks between the device and the host, beside everything else that runs. Source:
// vLLM's OffloadingHandler (v0.22.1: vllm/v1/kv_offload/worker/worker.py).

#include <cstdint>
#include <span>

namespace lesson11 {

/// A batch of copies. Jobs are numbered 1, 2, 3, ... in the order in which they start.
using Job = int64_t;

enum class Direction {
  kOffload,  // from the device to the host
  kLoad,     // from the host to the device
};

/// A block of the device and one of the host; `Direction` says which is copied to which.
struct BlockMove {
  int32_t device = 0;
  int32_t host = 0;
  friend bool operator==(const BlockMove&, const BlockMove&) = default;
};

/// Jobs run one after the other, in the order in which they are started. So a job reads what the
/// jobs before it have written, and two jobs in flight may name the same block.
class Transfers {
 public:
  virtual ~Transfers() = default;
  /// Queues a job and returns at once. Throws if the job cannot be started; nothing is queued then.
  virtual Job start(Direction direction, std::span<const BlockMove> moves) = 0;
  /// The last complete job; all jobs before it are complete, too. 0 if there is none.
  virtual Job completed() = 0;
  /// Waits until the job is complete.
  virtual void wait(Job job) = 0;
};

}  // namespace lesson11
