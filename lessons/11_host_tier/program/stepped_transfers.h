#pragma once

// Transfers that copy when they are told to: for the page, where a pass takes no time, and for
// tests, where a copy may end at any moment.

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lessons/11_host_tier/transfers.h"

namespace lesson11 {

class SteppedTransfers final : public Transfers {
 public:
  /// Copies one block. False: the lower block is damaged.
  using Copy = std::function<bool(Way, const BlockMove&)>;
  explicit SteppedTransfers(Copy copy = {}) : copy_(std::move(copy)) {}

  Ticket start(Way way, std::span<const BlockMove> moves) override {
    for (const BlockMove& move : moves) queue_.push_back({way, move, started_ + 1});
    if (moves.empty()) queue_.push_back({way, {}, started_ + 1, false});
    return ++started_;
  }
  Ticket completed() override { return queue_.empty() ? started_ : queue_.front().ticket - 1; }
  void wait(Ticket ticket) override {
    while (completed() < ticket) step(1);
  }
  std::vector<int32_t> take_damaged() override {
    std::vector<int32_t> done;
    std::erase_if(damaged_, [&](const auto& block) {
      if (block.ticket > completed()) return false;
      done.push_back(block.move.lower);
      return true;
    });
    return done;
  }
  double seconds_per_block() const override { return seconds_per_block_; }

  /// Copies so many blocks more, if they wait.
  void step(int num_blocks) {
    for (; num_blocks > 0 && !queue_.empty(); --num_blocks) {
      const Queued next = queue_.front();
      if (next.is_block && copy_ && !copy_(next.way, next.move)) damaged_.push_back(next);
      queue_.pop_front();
    }
  }
  int num_queued() const { return static_cast<int>(queue_.size()); }  // blocks
  void set_seconds_per_block(double seconds) { seconds_per_block_ = seconds; }

 private:
  struct Queued {
    Way way = Way::kDown;
    BlockMove move;
    Ticket ticket = 0;
    bool is_block = true;
  };
  Copy copy_;
  std::deque<Queued> queue_;
  std::vector<Queued> damaged_;
  Ticket started_ = 0;
  double seconds_per_block_ = 0;
};

}  // namespace lesson11
