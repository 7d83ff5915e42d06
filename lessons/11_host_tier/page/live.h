#pragma once

// This lesson's engine, watched by the page, and the settings and the memory of the page's own
// pools.

#include <cstdint>
#include <string>
#include <vector>

#include "lessons/08_scheduler/page/live.h"
#include "lessons/11_host_tier/engine.h"
#include "stepped_transfers.h"

namespace lesson11 {

constexpr int kBlockSize = 4;  // tokens

/// The page's own pools and scheduler, and those of a live run.
struct PageSettings {
  int device = 12, host = 16;  // blocks
  int copies = 2;              // blocks copied beside a pass
  int ahead = 8;               // see HostTierOptions::offload_ahead
  LoadPolicy policy = LoadPolicy::kAlways;
  int token = 10, block = 20;  // microseconds, for LoadPolicy::kQuicker

  lesson08::SchedulerOptions scheduler() const { return {.max_tokens_per_pass = 16}; }
  Rates rates() const {
    return {.seconds_per_token = 1e-6 * token, .seconds_per_block = 1e-6 * block};
  }
};

class LiveTier : public lesson08::LiveServer<HostTierEngine> {
 public:
  using LiveServer::LiveServer;
  // Conversations, each of which comes twice.
  static constexpr const char* kNames[] = {"Tom", "Lily", "Ben", "Mia"};
  static constexpr int kConversations = 4;

  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);
};

/// The contents of the blocks of the page's own pools: tokens instead of their K and V. Copies are
/// made when they are told to.
class PageMemory {
 public:
  PageMemory(int device_blocks, int host_blocks);

  /// A pass computes these tokens of a request, from position `begin` to `end` - 1.
  void write(std::span<const int32_t> table, std::span<const int32_t> tokens, int begin, int end);
  /// Throws std::logic_error for a block that can be found and does not hold its tokens.
  void check(const HostTierManager& manager) const;

  SteppedTransfers copies;

 private:
  using Blocks = std::vector<std::vector<int32_t>>;  // [num_blocks + 1][kBlockSize]
  Blocks device_, host_;
};

}  // namespace lesson11
