#pragma once

// Transfers that copy when they are told to. They are for the page, where a pass takes no time, and
// for tests, where a copy may end at any moment.

#include <deque>
#include <functional>
#include <utility>

#include "lessons/11_host_tier/transfers.h"

namespace lesson11 {

class SteppedTransfers : public Transfers {
 public:
  using Copy = std::function<void(Direction, const BlockMove&)>;
  explicit SteppedTransfers(Copy copy) : copy_(std::move(copy)) {}

  Job start(Direction direction, std::span<const BlockMove> moves) override {
    ++started_;
    for (const BlockMove& move : moves) queue_.push_back({direction, move, started_});
    return started_;
  }
  Job completed() override { return queue_.empty() ? started_ : queue_.front().job - 1; }
  void wait(Job job) override {
    while (completed() < job) step(1);
  }

  /// Copies num_blocks blocks more, or all that wait.
  void step(int num_blocks) {
    for (; num_blocks > 0 && !queue_.empty(); --num_blocks) {
      copy_(queue_.front().direction, queue_.front().move);
      queue_.pop_front();
    }
  }

  struct Queued {
    Direction direction;
    BlockMove move;
    Job job;
  };
  const std::deque<Queued>& queue() const { return queue_; }  // blocks to copy, in their order

 private:
  Copy copy_;
  std::deque<Queued> queue_;
  Job started_ = 0;
};

}  // namespace lesson11
