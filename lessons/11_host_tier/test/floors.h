#pragma once

// A device, a host and a file whose blocks are put there by hand: what a function of the manager
// does is seen before anything else has happened. Blocks of 4 tokens.

#include "tests/support/readable.h"  // before the checks

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program/stepped_transfers.h"
#include "tiered_manager.h"

namespace lesson11 {

inline std::string readable(const BlockMove& move) {
  return fmt::format("{} and {}", move.upper, move.lower);
}
inline std::string readable(const TierBlock& block) {
  return fmt::format("{} of {}{}", block.id, block.tier == 0 ? "host" : "file",
                     block.on_its_way ? " on its way" : "");
}

}  // namespace lesson11

namespace lesson11_test {

using namespace lesson11;
using Ids = std::vector<int32_t>;
using Tokens = std::vector<int32_t>;
using Moves = std::vector<BlockMove>;
using Below = std::vector<TierBlock>;

/// The first tokens of an endless text.
inline Tokens text(int number, int num_tokens) {
  Tokens tokens(static_cast<size_t>(num_tokens));
  std::iota(tokens.begin(), tokens.end(), 1000 * number);
  return tokens;
}

/// Copies that cannot be started.
struct NoTransfers final : Transfers {
  Ticket start(Way, std::span<const BlockMove>) override { throw std::runtime_error("no bus"); }
  Ticket completed() override { return 0; }
  void wait(Ticket) override {}
};

struct Floors {
  struct Sizes {
    int device = 6, host = 8, file = 8;  // blocks
    TierOptions options{};
    lesson06::BlockHasher hasher{};
    bool transfers = true;  // false: none can be started
  };
  explicit Floors(const Sizes& sizes)
      : cache{.hasher = sizes.hasher}, device(sizes.device, kBlockSize) {
    std::vector<Tier> tiers(2);
    for (size_t tier = 0; tier < 2; ++tier) {
      auto pool = std::make_unique<BlockPool>(tier == 0 ? sizes.host : sizes.file, kBlockSize);
      auto copies = std::make_unique<SteppedTransfers>([this, tier](Way, const BlockMove& move) {
        return !damaged.contains({static_cast<int>(tier), move.lower});
      });
      (tier == 0 ? host : file) = pool.get();
      (tier == 0 ? to_host : to_file) = copies.get();
      tiers[tier].pool = std::move(pool);
      tiers[tier].transfers = std::move(copies);
      if (!sizes.transfers) tiers[tier].transfers = std::make_unique<NoTransfers>();
    }
    manager = std::make_unique<TieredManager>(device, std::move(tiers), cache, sizes.options, 100);
  }
  Floors() : Floors(Sizes{}) {}

  /// Somebody has computed this, and nobody holds it any more: ids from the front of the queue.
  void put(BlockPool& pool, const Tokens& tokens) const {
    lesson07::KvCacheManager books(pool, cache);
    BlockHashes hashes;
    REQUIRE(books.allocate_slots(1, static_cast<int>(tokens.size())));
    books.cache_blocks(1, tokens, hashes, static_cast<int>(tokens.size()));
    books.free(1);
  }
  FoundBlocks look_up(const Tokens& tokens, bool skip_reading = false) const {
    BlockHashes hashes;
    return manager->look_up(tokens, hashes, skip_reading);
  }
  /// Of the batches under way between a tier and the pool above; the last one's blocks.
  Moves moves(int tier, Way way) const {
    const auto& all = manager->moves(tier);
    if (all.empty()) return {};
    CHECK((all.back().way == way));
    return all.back().blocks;
  }
  static Ids queue(const BlockPool& pool) {
    Ids ids;
    for (const auto* block : pool.queue().all()) ids.push_back(block->id);
    return ids;
  }
  static Ids ids(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }
  /// So many copies end, and the manager hears of it.
  void finish(SteppedTransfers& transfers, int num_blocks = 1000) const {
    transfers.step(num_blocks);
    manager->finish_moves();
  }

  static constexpr int kBlockSize = 4;
  CacheManagerOptions cache;
  BlockPool device;
  BlockPool* host = nullptr;
  BlockPool* file = nullptr;
  SteppedTransfers* to_host = nullptr;
  SteppedTransfers* to_file = nullptr;
  std::set<std::pair<int, int32_t>> damaged;  // tier and block
  std::unique_ptr<TieredManager> manager;     // destroyed first: it waits for copies
};

}  // namespace lesson11_test
