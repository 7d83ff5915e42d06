#pragma once

// Lesson 06's manager over lesson 07's pool, with more such pools below it: what is about to be
// evicted sinks, what is found down there rises. Source: vLLM's OffloadingManager (v0.22.1:
// vllm/v1/kv_offload/base.py) and OffloadingConnector.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"
#include "transfers.h"

namespace lesson11 {

using lesson06::BlockHashes;
using lesson06::BlockKey;
using lesson06::CacheManagerOptions;
using lesson06::ComputedBlocks;
using lesson06::PrefixId;
using lesson07::BlockPool;
using lesson07::KvCacheManager;

/// A pool below the device's: lesson 07's class again. No request holds a block of it, so a block
/// is free unless it is being copied, and its queue is the order in which blocks are overwritten.
struct Tier {
  std::shared_ptr<const void> storage = {};  // what the transfers read and write: outlives them
  std::unique_ptr<BlockPool> pool;
  std::unique_ptr<Transfers> transfers;  // to and from the pool above
};

/// Tier 0 is the one right below the device.
struct TierBlock {
  int tier = 0;
  int32_t id = 0;
  bool on_its_way = false;  // it is being copied, up or down: ask again later
  friend bool operator==(const TierBlock&, const TierBlock&) = default;
};

/// What all pools have of a request's tokens.
struct FoundBlocks {
  ComputedBlocks computed;            // on the device
  std::vector<TierBlock> below = {};  // after these, up to the first block that no tier has
};

struct TierOptions {
  /// So many blocks at the front of each pool's queue have a copy below, or are being copied: who
  /// takes them next loses nothing. 0: nothing sinks.
  int sink_ahead = 64;
  /// What is worth keeping: a block of the device sinks if so many requests have found it. (vLLM's
  /// store_threshold.)
  int min_hits_to_sink = 0;
};

/// Since the manager was made.
struct TierMetrics {
  int64_t num_sunk = 0;     // blocks copied into the tier
  int64_t num_risen = 0;    // blocks copied out of it, upwards
  int64_t num_damaged = 0;  // that could not be read, or not be written
};

/// To lesson 08's scheduler a manager of one pool. Everything else is asked by this lesson's.
class TieredManager : public KvCacheManager {
 public:
  /// Borrows the pool, owns the tiers. Prefixes get numbers from `first_prefix` on, beyond those
  /// that the tiers know. Throws std::invalid_argument without a tier, or for one with blocks of
  /// another size.
  TieredManager(BlockPool& pool, std::vector<Tier> tiers, const CacheManagerOptions& options = {},
                const TierOptions& tier_options = {}, PrefixId first_prefix = 0);
  /// Waits for what is under way.
  ~TieredManager() override;

  /// As get_computed_blocks(), over all pools.
  FoundBlocks look_up(std::span<const int32_t> tokens, BlockHashes& hashes,
                      bool skip_reading = false) const;
  /// Blocks of `found` that lie below tier 0 begin to rise to it, as many as find room there. How
  /// many: until they are there look_up() finds them on their way.
  int fetch(const FoundBlocks& found);
  /// A request that holds nothing yet begins with what was found: found.below, all of it whole and
  /// in tier 0, is being copied into blocks of its own. The ticket of that copy; no value: too few
  /// blocks are free, and nothing has changed. When loaded(), cache_blocks() may be told that these
  /// tokens are computed. `must_fit` as in allocate_slots(), of the tokens after those.
  std::optional<Ticket> load(int64_t id, const FoundBlocks& found, int must_fit = 0);
  bool loaded(Ticket ticket) const;

  /// Blocks that would be overwritten next begin to sink, in every pool.
  void sink();
  /// All blocks that nobody holds sink as far as they find room, and this returns when they have.
  void flush();
  /// Takes note of what has been copied.
  void finish_moves();
  /// Returns when something has been copied, if anything is under way.
  void wait_for_a_move();

  /// allocate_slots() has given out blocks that are still being copied, from or to. What writes
  /// them has to come after this batch of tier 0; 0: no batch. Asked once.
  Ticket take_write_ticket();
  std::optional<std::span<const int32_t>> allocate_slots(
      int64_t id, int num_new_tokens, const ComputedBlocks& computed = lesson06::kNone,
      int must_fit = 0) override;

  /// Forgets what all pools hold, files included.
  bool reset_prefix_cache() override;

  int num_tiers() const { return static_cast<int>(links_.size()); }
  const BlockPool& tier_pool(int tier) const { return *link(tier).pool; }
  const Transfers& transfers(int tier) const { return *link(tier).transfers; }
  const TierMetrics& tier_metrics(int tier) const { return link(tier).metrics; }
  /// Copies that are under way between a tier and the pool above, in their order.
  struct Move {
    Way way = Way::kDown;
    Ticket ticket = 0;
    std::vector<BlockMove> blocks;
  };
  const std::deque<Move>& moves(int tier) const { return link(tier).moves; }
  /// Throws std::logic_error unless check() passes, every tier's pool is sound, and its blocks in
  /// use are those that are being copied.
  void check_tiers() const;

 private:
  /// A tier, and what goes on between it and the pool above.
  struct Link : Tier {
    BlockPool* above = nullptr;
    std::deque<Move> moves;    // under way, in their order
    Ticket done = 0;           // batches up to this one are done, as finish_moves() knows
    std::vector<Ticket> busy;  // [above's ids]: the last batch that names the upper block
    TierMetrics metrics;
    bool is_busy(int32_t upper) const { return busy[static_cast<size_t>(upper)] > done; }
  };

  const Link& link(int tier) const { return links_.at(static_cast<size_t>(tier)); }
  std::optional<TierBlock> find_below(const BlockKey& key, std::optional<PrefixId>* prefix) const;
  PrefixId publish(int32_t block, const BlockKey& key) override;
  Ticket start(Link& link, Way way, std::vector<BlockMove> blocks);
  std::optional<int32_t> take(size_t tier);
  std::vector<const lesson07::KvBlock*> worth_sinking(size_t tier, size_t n) const;
  void sink_into(size_t tier, std::span<const lesson07::KvBlock* const> blocks);
  void land(size_t tier, const Move& move);
  void wait_for_all();

  TierOptions tier_options_;
  std::vector<Link> links_;  // [num_tiers]
  PrefixId next_prefix_;
  Ticket write_ticket_ = 0;  // see take_write_ticket()
};

}  // namespace lesson11
