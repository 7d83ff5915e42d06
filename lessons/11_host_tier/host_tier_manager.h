#pragma once

// Two pools: the device's, which requests hold, and a larger one in the host's memory. Blocks that
// are about to be evicted are copied to the host before; blocks that only the host still has are
// copied back. Source: vLLM's OffloadingManager (v0.22.1: vllm/v1/kv_offload/base.py) and
// OffloadingConnector.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"
#include "transfers.h"

namespace lesson11 {

using lesson06::BlockHashes;
using lesson06::BlockKey;
using lesson06::CachedBlock;
using lesson06::CacheManagerOptions;
using lesson06::ComputedBlocks;
using lesson06::KvCacheManager;
using lesson06::PrefixId;
using lesson06::PrefixIndex;
using lesson07::BlockPool;

/// The device's pool as lesson 06's manager sees it. A prefix has one number in both pools: a block
/// gets the number of its copy in the host. Without a copy it gets a number never given before.
class DevicePool final : public lesson06::CachePool {
 public:
  /// Borrows both.
  DevicePool(BlockPool& pool, const BlockPool& host);

  int num_blocks() const override { return pool_.num_blocks(); }
  int num_free() const override { return pool_.num_free(); }
  int ref_cnt(int32_t id) const override { return pool_.ref_cnt(id); }
  const PrefixIndex& index() const override { return pool_.index(); }
  bool get_new_blocks(std::span<int32_t> ids) override { return pool_.get_new_blocks(ids); }
  void touch(std::span<const int32_t> ids) override { pool_.touch(ids); }
  void free_blocks(std::span<const int32_t> ids) override { pool_.free_blocks(ids); }
  PrefixId cache_full_block(int32_t id, const BlockKey& key) override;
  bool reset_prefix_cache() override { return pool_.reset_prefix_cache(); }
  void check() const override { pool_.check(); }

 private:
  BlockPool& pool_;
  const BlockPool& host_;
  PrefixId next_prefix_ = 0;
};

/// Counts since the manager was made.
struct TierMetrics {
  int64_t num_offloaded = 0;       // blocks copied to the host
  int64_t num_loaded = 0;          // blocks copied back
  int64_t num_hits_on_device = 0;  // blocks that requests began with: the device still had them
  int64_t num_hits_in_host = 0;    // blocks that requests began with: they had been loaded
};

/// Lesson 06's manager over the device's pool, and beside it the host's pool and the copies between
/// the two. It meets lesson 08's concept KvManager, and has three functions for a step: complete(),
/// load() and offload(). No request holds a block of the host: they are all in its free queue, in
/// the order in which they will be overwritten. A block of the host can be found by its new content
/// as soon as the copy is started, because jobs run in their order.
class HostTierManager {
 public:
  /// Borrows all three. Both pools have blocks of one size; the host's may hold some already.
  HostTierManager(BlockPool& device, BlockPool& host, Transfers& transfers,
                  const CacheManagerOptions& options = {});
  HostTierManager(const HostTierManager&) = delete;
  HostTierManager& operator=(const HostTierManager&) = delete;

  // Questions of the scheduler: lesson 06's functions, over the device's pool.
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens, BlockHashes& hashes) const {
    return manager_.get_computed_blocks(tokens, hashes);
  }
  int64_t num_blocks_to_allocate(const ComputedBlocks& computed, int num_new_tokens) const {
    return manager_.num_blocks_to_allocate(computed, num_new_tokens);
  }
  /// As in lesson 06. Also empty while blocks of the request are being loaded.
  std::optional<std::span<const int32_t>> allocate_slots(
      int64_t id, int num_new_tokens, const ComputedBlocks& computed = lesson06::kNone);
  void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                    int num_computed) {
    manager_.cache_blocks(id, tokens, hashes, num_computed);
  }
  void free(int64_t id) { manager_.free(id); }
  bool holds(int64_t id) const { return manager_.holds(id); }
  const lesson03::BlockTable& table(int64_t id) const { return manager_.table(id); }
  int64_t max_blocks(int64_t num_tokens) const { return manager_.max_blocks(num_tokens); }
  int64_t num_slots_used() const { return manager_.num_slots_used(); }
  int block_size() const { return manager_.block_size(); }
  const BlockPool& pool() const { return device_; }
  /// Empties both pools.
  bool reset_prefix_cache();

  /// The run of blocks in the host that continues `computed`, the blocks that the device has. The
  /// last token's block is never among them.
  std::vector<int32_t> find_in_host(std::span<const int32_t> tokens, const BlockHashes& hashes,
                                    const ComputedBlocks& computed) const;
  /// Subtracts the blocks that all tokens of a waiting request need from `room`, the number of free
  /// blocks. Returns false if that is below 0; then nothing else changes. Otherwise starts to load
  /// the request's blocks that only the host has, those right after the device's. complete() makes
  /// them findable on the device, and allocate_slots() refuses the request until then.
  bool load(int64_t id, std::span<const int32_t> tokens, BlockHashes hashes, int64_t& room);
  bool is_loading(int64_t id) const { return loading_.contains(id); }
  /// Copies the device's next `num_ahead` victims to the host, as far as it has room. Skips those
  /// that are not cached, were found by fewer than `min_hits` requests, or have a copy there.
  void offload(int num_ahead, int min_hits = 0);
  /// Ends the loads whose copies are complete: their blocks can be found on the device now.
  void complete();
  /// Returns when the first load in flight is complete; at once if there is none.
  void wait_for_load();
  /// Returns when all loads in flight are complete. No load holds a block then.
  void finish_loads();
  /// Returns the last job in flight that reads blocks given out by allocate_slots() since the last
  /// call: a pass may write them after that job. 0 means that there is none.
  Job take_write_job() { return std::exchange(write_job_, 0); }

  const BlockPool& host() const { return host_; }
  const TierMetrics& metrics() const { return metrics_; }
  /// Throws std::logic_error unless both pools are sound, and every block of the device in use is
  /// held by a request or by a load in flight.
  void check() const;

 private:
  /// A load holds its blocks as a request does: lesson 06's manager knows it by `owner`.
  struct Load {
    Job job = 0;
    int64_t owner = 0;
    std::vector<int32_t> tokens;  // of the blocks that the device has, and of those on their way
    BlockHashes hashes;
    std::vector<int32_t> host_ids;
  };
  struct Waiting {
    Job job;         // the load that the request waits for
    int num_blocks;  // of that load
  };
  void start_load(Load load, std::span<const int32_t> blocks);
  struct Victims {
    std::vector<const CachedBlock*> missing;
    std::vector<int32_t> copies;  // [host ids]
  };
  Victims split(std::span<const lesson07::KvBlock* const> blocks);
  void use(int32_t host_id);

  BlockPool& device_;
  BlockPool& host_;
  Transfers& transfers_;
  DevicePool numbered_;                 // over device_
  KvCacheManager manager_;              // over numbered_
  std::deque<Load> loads_;              // in flight, in their order
  std::map<int64_t, Waiting> loading_;  // by request
  std::vector<Job> last_job_;           // [device ids] that offloads the block
  std::vector<bool> was_loaded_;        // [device ids] and not yet found by a request
  Job done_ = 0;                        // the last job that complete() has seen
  Job write_job_ = 0;                   // see take_write_job()
  TierMetrics metrics_;
};

}  // namespace lesson11
