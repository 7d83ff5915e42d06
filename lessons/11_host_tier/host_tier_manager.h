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
using lesson07::BlockPool;

/// Lesson 07's pool for the device's blocks. A prefix has one number on both sides: a block gets
/// the number of its copy in the host, and without a copy a number that neither pool has given
/// before.
class DevicePool final : public BlockPool {
 public:
  using BlockPool::BlockPool;
  /// Borrows the host's pool. From now on prefixes have its numbers.
  void share_prefixes(const BlockPool& host);
  PrefixId cache_full_block(int32_t id, const BlockKey& key) override;

 private:
  const BlockPool* host_ = nullptr;
  PrefixId next_prefix_ = 0;
};

/// Counts since the manager was created.
struct TierMetrics {
  int64_t num_offloaded = 0;       // blocks copied to the host
  int64_t num_loaded = 0;          // blocks copied back
  int64_t num_hits_on_device = 0;  // blocks that requests began with: the device still had them
  int64_t num_hits_in_host = 0;    // blocks that requests began with: they had been loaded
};

/// Lesson 06's manager over the device's pool, and beside it the host's pool and the copies between
/// the two. The idea: the device's next victims are copied to the host before they are evicted, and
/// a waiting request whose blocks only the host has waits until they are copied back. No request
/// holds a block of the host: they are all in its free queue, in the order in which they will be
/// overwritten. A block of the host can be found by its new content as soon as the copy is started,
/// because jobs run in their order.
class HostTierManager : private KvCacheManager {
 public:
  /// Borrows all three. Both pools have blocks of one size; the host's may hold some already.
  HostTierManager(DevicePool& device, BlockPool& host, Transfers& transfers,
                  const CacheManagerOptions& options = {});
  HostTierManager(const HostTierManager&) = delete;
  HostTierManager& operator=(const HostTierManager&) = delete;

  // A step: complete(), load() for the requests that wait, the scheduler and its pass, offload().

  /// Ends the loads whose copies are complete: their blocks can be found on the device now.
  void complete();
  /// Starts to load the request's blocks that only the host has, those right after `computed`, the
  /// blocks that the device has. complete() makes them findable there, and allocate_slots() refuses
  /// the request until then. Does nothing if the host has no such block, or the request is loading.
  /// Throws std::logic_error if fewer blocks are free than it takes.
  void load(int64_t id, std::span<const int32_t> tokens, const BlockHashes& hashes,
            const ComputedBlocks& computed);
  /// Copies the device's next `num_ahead` victims to the host, as far as it has room. Skips those
  /// that are not cached, were found by fewer than `min_hits` requests, or have a copy there.
  void offload(int num_ahead, int min_hits = 0);

  // What the scheduler asks: lesson 06's functions, over the device's pool.
  using KvCacheManager::block_size, KvCacheManager::cache_blocks, KvCacheManager::free;
  using KvCacheManager::get_computed_blocks, KvCacheManager::holds, KvCacheManager::max_blocks;
  using KvCacheManager::num_blocks_to_allocate, KvCacheManager::num_slots_used;
  using KvCacheManager::table;
  /// As in lesson 06. Also empty while blocks of the request are being loaded.
  std::optional<std::span<const int32_t>> allocate_slots(
      int64_t id, int num_new_tokens, const ComputedBlocks& computed = lesson06::kNone);
  /// Empties both pools.
  bool reset_prefix_cache();
  const BlockPool& pool() const { return device_; }

  /// The run of blocks in the host that continues `computed`. The last token's block is never among
  /// them.
  std::vector<int32_t> find_in_host(std::span<const int32_t> tokens, const BlockHashes& hashes,
                                    const ComputedBlocks& computed) const;
  /// Free blocks that a waiting request takes until all of its num_tokens tokens have slots. Those
  /// that are being loaded for it are not free any more, and don't count.
  int64_t num_blocks_to_start(int64_t id, const ComputedBlocks& computed, int num_tokens) const;
  bool is_loading(int64_t id) const { return loading_.contains(id); }
  /// Waits until the first load in flight is complete. Returns at once if there is none.
  void wait_for_load();
  /// Waits until all loads in flight are complete. No load holds a block then.
  void finish_loads();
  /// Returns the newest offload that still reads a block that allocate_slots() gave out since the
  /// last call: a pass may write the block only after that job. 0 if there is none.
  Job take_write_job() { return std::exchange(write_job_, 0); }

  const BlockPool& host() const { return host_; }
  const TierMetrics& metrics() const { return metrics_; }
  /// Throws std::logic_error unless both pools are sound, every block of the device in use is held
  /// by a request or by a load in flight, and a load has the tokens of all its blocks.
  void check() const;

 private:
  /// Blocks on their way to the device. A load holds them, and those before them, as a request
  /// does.
  struct Load {
    Job job = 0;
    lesson06::PrefixChain chain;     // of the blocks that the device has
    std::vector<int32_t> block_ids;  // of the device: those, and then the new ones
    std::vector<int32_t> host_ids;   // what is copied to the new ones
    std::vector<int32_t> tokens;     // [block_ids, block_size]
    BlockHashes hashes;
  };
  struct Waiting {
    Job job;         // the load that the request waits for
    int num_blocks;  // that are loaded for this request
  };
  void start(Load load);
  struct Victims {
    std::vector<const CachedBlock*> missing;
    std::vector<int32_t> copies;  // [host ids]
  };
  Victims split(std::span<const lesson07::KvBlock* const> blocks);
  void mark_most_recent(int32_t host_id);

  DevicePool& device_;
  BlockPool& host_;
  Transfers& transfers_;
  std::deque<Load> loads_;              // in flight, in the order they started
  std::map<int64_t, Waiting> loading_;  // by request
  std::vector<Job> last_job_;           // [device ids] that offloads the block
  std::vector<bool> was_loaded_;        // [device ids] and not yet found by a request
  Job done_ = 0;                        // the last job that complete() has seen
  Job write_job_ = 0;                   // see take_write_job()
  TierMetrics metrics_;
};

}  // namespace lesson11
