#pragma once

// A pool that is a cache: a freed block keeps its content until it is the least recently used one
// and somebody needs room. Source: vLLM's BlockPool (v0.22.1: vllm/v1/core/block_pool.py).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "block_key.h"
#include "free_block_queue.h"
#include "kv_block.h"

namespace lesson07 {

/// Where a freed block goes in the queue.
enum class FreeOrder {
  kAppend,         // to the back, whatever it holds (vLLM v0.22.1)
  kUnhashedFirst,  // a block that nobody can find goes to the front: it is worth nothing (newer
                   // vLLM)
};

/// What happened to the cache, for whoever routes requests to it. Source: vLLM's KV events.
struct CacheEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  int32_t block_id = -1;  // kCleared: none
  uint64_t hash = 0;
};

/// Counts since the pool was made, and means over the blocks that were evicted.
struct CacheMetrics {
  int64_t num_stored = 0;
  int64_t num_evicted = 0;
  int64_t num_revived = 0;         // free blocks that a hit took back
  int64_t sum_residency = 0;       // ticks from stored to evicted, over all evicted
  int64_t sum_idle = 0;            // ticks from last used to evicted
  int64_t num_evicted_unused = 0;  // evicted without a single hit
};

/// Block 0 is the *null block*: a place holder for table entries that no token needs. It is never
/// given out, freed, or cached, and is counted in none of the numbers below. For all others:
/// num_free() + num_used() == num_blocks(), and a block is in the free queue if and only if its
/// ref_cnt is 0. Broken rules throw (std::out_of_range for an unknown id, std::logic_error), name
/// the block, and change nothing.
class BlockPool {
 public:
  /// Which free block goes when room is needed: the front one, unless somebody wants to compare.
  /// The queue is not empty.
  using ChooseVictim = std::function<KvBlock&(FreeBlockQueue& queue)>;
  /// A hash of at most so many bits, for tests and the page.
  static constexpr int kAllBits = 64;

  /// `num_blocks` blocks and the null block. Throws std::invalid_argument unless there is at
  /// least 1.
  BlockPool(int num_blocks, int block_size, FreeOrder order = FreeOrder::kAppend,
            int hash_bits = kAllBits);

  int num_blocks() const { return static_cast<int>(blocks_.size()) - 1; }
  int num_free() const { return static_cast<int>(queue_.size()); }
  int num_used() const { return num_blocks() - num_free(); }
  int num_cached() const { return num_cached_; }
  int block_size() const { return block_size_; }
  static constexpr int32_t kNullBlock = 0;
  const KvBlock& block(int32_t id) const;
  /// Of a cached block: [block_size].
  std::span<const int32_t> tokens(int32_t id) const;
  /// No value: the block is not cached.
  std::optional<PrefixId> prefix(int32_t id) const;
  const FreeBlockQueue& queue() const { return queue_; }

  /// Takes n blocks from the front of the queue, each with one reference; what they held is
  /// evicted. No value: fewer are free, and nothing has changed.
  std::optional<std::vector<int32_t>> get_new_blocks(int n);
  /// The same, into `ids`, without an allocation. False: fewer are free, and nothing has changed.
  bool get_new_blocks(std::span<int32_t> ids);
  /// Makes room for so many more events, so that the calls which tell them allocate nothing.
  void expect_events(size_t count);
  /// One more reference for each block, in order. A free one leaves the queue with what it holds.
  void touch(std::span<const int32_t> ids);
  /// One reference less for each, in order; those without any go to the queue. Give a table's
  /// blocks in reverse: then its tail is taken before its head. Blocks may be named twice. Checked
  /// as a whole before anything changes.
  void free_blocks(std::span<const int32_t> ids);

  struct Match {
    int32_t block_id = 0;
    PrefixId prefix = 0;
  };
  /// A cached block with this content, free or not. The hash finds candidates; tokens, parent and
  /// extra keys decide.
  std::optional<Match> find(uint64_t hash, std::optional<PrefixId> parent,
                            std::span<const int32_t> tokens, const ExtraKeys& extra_keys) const;
  /// The block is full and its K and V are written: it can be found from now on. Returns its
  /// prefix.
  PrefixId cache_full_block(int32_t id, uint64_t hash, std::optional<PrefixId> parent,
                            std::span<const int32_t> tokens, const ExtraKeys& extra_keys);
  /// Forgets all content. False, and nothing has changed, if a block is in use.
  bool reset_prefix_cache();

  /// What the pool's hashes are cut down to.
  uint64_t narrow(uint64_t hash) const { return hash & hash_mask_; }
  void set_choose_victim(ChooseVictim choose) { choose_victim_ = std::move(choose); }

  /// Events since the last call, oldest first. They are kept only after record_events(true).
  std::vector<CacheEvent> take_events() { return std::exchange(events_, {}); }
  void record_events(bool record) { record_ = record; }
  const CacheMetrics& metrics() const { return metrics_; }
  int64_t num_refused() const { return num_refused_; }  // candidates with another content

  /// Throws std::logic_error unless what stands above the class holds, and the hash table and the
  /// blocks name each other.
  void check() const;

 private:
  KvBlock& find_block(int32_t id, const char* action);
  KvBlock& at(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  bool has_reference(int32_t id) const {
    return id > kNullBlock && static_cast<size_t>(id) < blocks_.size() &&
           blocks_[static_cast<size_t>(id)].ref_cnt > 0;
  }
  size_t index_of(const KvBlock& block) const {
    return static_cast<size_t>(&block - blocks_.data());
  }
  std::span<const int32_t> tokens_of(const KvBlock& block) const {
    const auto size = static_cast<size_t>(block_size_);
    return std::span(tokens_).subspan(index_of(block) * size, size);
  }
  void evict(KvBlock& block);
  void tell(CacheEvent::Kind kind, int32_t id, uint64_t hash);
  size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  int block_size_;
  FreeOrder order_;
  uint64_t hash_mask_ = ~uint64_t{0};
  std::vector<KvBlock> blocks_;  // [num_blocks + 1], by id; never moved
  // Of those that are cached, apart from the blocks: only lookups read them.
  std::vector<BlockContent> contents_;  // [num_blocks + 1]
  std::vector<int32_t> tokens_;         // [num_blocks + 1, block_size]
  FreeBlockQueue queue_;
  std::vector<KvBlock*> buckets_;  // heads of chains through next_in_bucket; a power of two
  ChooseVictim choose_victim_;
  PrefixId next_prefix_ = 0;
  int num_cached_ = 0;
  int64_t clock_ = 0;
  bool record_ = false;
  std::vector<CacheEvent> events_;
  CacheMetrics metrics_;
  mutable int64_t num_refused_ = 0;
};

}  // namespace lesson07
