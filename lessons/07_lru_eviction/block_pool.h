#pragma once

// A pool that is a cache: a freed block keeps its content until it is the least recently used one
// and a request needs room. Source: vLLM's BlockPool (v0.22.1: vllm/v1/core/block_pool.py).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "free_block_queue.h"
#include "lessons/06_prefix_hashing/kv_cache_manager.h"

namespace lesson07 {

using lesson06::BlockHashes;
using lesson06::BlockKey;
using lesson06::ExtraKey;
using lesson06::ExtraKeys;
using lesson06::KvCacheManager;
using lesson06::PrefixId;
using lesson06::PrefixIndex;

/// Where a freed block goes in the queue.
enum class FreeOrder {
  kAppend,         // to the back, whatever it holds (vLLM v0.22.1)
  kUnhashedFirst,  // a block that no lookup can find goes to the front: it is worth nothing (newer
                   // vLLM)
};

/// A change of the cache's content, for a router that sends a request where its prefix is cached.
/// Source: vLLM's KV events.
struct CacheEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  int32_t block_id = -1;  // none for kCleared
  uint64_t hash = 0;
  // Only for kStored: the block's key, valid during the call, and the number of its prefix.
  const BlockKey* key = nullptr;
  PrefixId prefix = 0;
};
/// Receives each event: kRemoved while the block changes hands, kStored and kCleared once the
/// change is complete. Must neither throw nor call the pool.
using EventSink = std::function<void(const CacheEvent& event)>;

/// Counts since the pool was created.
struct CacheMetrics {
  int64_t num_stored = 0;
  int64_t num_evicted = 0;
  int64_t num_revived = 0;         // free blocks that a hit took back
  int64_t num_evicted_unused = 0;  // evicted without a single hit
};

/// Block 0 is the *null block*: a placeholder for table entries that no token needs. It is never
/// given out, freed, cached or counted. All other blocks are in the free queue if and only if their
/// ref_cnt is 0. Allocates nothing after it is made.
class BlockPool : public lesson06::CachePool {
 public:
  static constexpr int32_t kNullBlock = 0;

  /// Makes `num_blocks` blocks and the null block. Throws std::invalid_argument unless num_blocks
  /// and block_size are at least 1.
  BlockPool(int num_blocks, int block_size, FreeOrder order = FreeOrder::kAppend);

  int num_blocks() const override { return static_cast<int>(blocks_.size()) - 1; }
  int num_free() const override { return static_cast<int>(queue_.size()); }
  int ref_cnt(int32_t id) const override { return block(id).ref_cnt; }
  const PrefixIndex& index() const override { return index_; }
  int num_cached() const { return index_.size(); }
  const KvBlock& block(int32_t id) const;
  const FreeBlockQueue& queue() const { return queue_; }

  /// Takes blocks from the front of the queue.
  bool get_new_blocks(std::span<int32_t> ids) override;
  void touch(std::span<const int32_t> ids) override;
  /// Blocks that become free together enter the queue tail first, at either end.
  void free_blocks(std::span<const int32_t> ids) override;
  PrefixId cache_full_block(int32_t id, const BlockKey& key) override;
  bool reset_prefix_cache() override;
  /// Takes these blocks out of the index: no lookup finds them any more. Tables keep them.
  void evict_blocks(std::span<const int32_t> ids);

  void set_event_sink(EventSink sink) { on_event_ = std::move(sink); }
  const CacheMetrics& metrics() const { return metrics_; }
  void check() const override;

 private:
  KvBlock& at(int32_t id) { return blocks_[id]; }
  bool is_block(int32_t id) const { return id > kNullBlock && id <= num_blocks(); }
  void check_id(int32_t id, const char* action) const;
  void evict(KvBlock& block);
  void tell(const CacheEvent& event) const;

  FreeOrder order_;
  std::vector<KvBlock> blocks_;  // [num_blocks + 1], by id; never moved
  PrefixIndex index_;
  FreeBlockQueue queue_;
  EventSink on_event_;
  CacheMetrics metrics_;
};

}  // namespace lesson07
