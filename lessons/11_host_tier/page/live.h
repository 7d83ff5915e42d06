#pragma once

// The engine of this lesson, watched; and what the page's own pools are made of.

#include <array>
#include <cstdint>
#include <string>

#include "lessons/08_scheduler/page/live.h"
#include "lessons/11_host_tier/engine.h"
#include "stepped_transfers.h"

namespace lesson11 {

constexpr int kBlockSize = 4;  // tokens

/// The page's own pools and scheduler, and those of a live run.
struct PageSettings {
  int device = 12, host = 16;   // blocks
  int copies = 2;               // blocks copied beside a pass
  int budget = 16;              // tokens of a pass
  int ahead = 8, min_hits = 0;  // see HostTierOptions
  LoadPolicy policy = LoadPolicy::kAlways;
  int token = 10, block = 20;  // microseconds, for LoadPolicy::kQuicker

  lesson08::SchedulerOptions scheduler() const { return {.max_tokens_per_pass = budget}; }
  Rates rates() const {
    return {.seconds_per_token = 1e-6 * token, .seconds_per_block = 1e-6 * block};
  }
};

class LiveTier : public lesson08::LiveServer<HostTierEngine> {
 public:
  using LiveServer::LiveServer;
  static constexpr int kConversations = 4;  // each of them comes twice

  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);
  const HostTierEngine& tiered() const { return engine<HostTierEngine>(); }
};

/// Blocks copied in a pass.
struct Traffic {
  int64_t offloaded = 0, loaded = 0;
};

/// Real blocks on the device and in the host's memory, and copies that take their time. K and V of
/// a token are its number and its place, so that a block's content can be checked.
class PageMemory {
 public:
  PageMemory(int device_blocks, int host_blocks);

  SteppedTransfers& copies() { return copies_; }
  const Traffic& traffic() const { return traffic_; }  // of all passes
  /// A pass has computed a token.
  void write(int32_t block, int offset, int32_t token, int position);
  /// Throws std::logic_error for a block that can be found and does not hold its tokens.
  void check(const HostTierManager& manager);

 private:
  kv::Stream stream_;
  PagedKvCache cache_;
  HostBlocks host_;
  Traffic traffic_;
  SteppedTransfers copies_;
};

}  // namespace lesson11
