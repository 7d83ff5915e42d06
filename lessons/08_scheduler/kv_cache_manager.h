#pragma once

// What the scheduler asks about memory. Source: vLLM v1's KVCacheManager (v0.22.1:
// vllm/v1/core/kv_cache_manager.py).

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson08 {

using lesson03::blocks_for;
using lesson03::BlockTable;
using lesson07::BlockPool;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson07::PrefixId;

/// Blocks of a request that the cache has, and where its chain of hashes stands behind them.
struct ComputedBlocks {
  std::vector<int32_t> block_ids;
  int num_tokens = 0;
  std::optional<uint64_t> hash;
  std::optional<PrefixId> prefix;
};

/// Block tables of the requests that hold blocks, by request id. Unknown ids throw
/// std::out_of_range that names them; nothing has changed then, nor when memory runs out.
class KvCacheManager {
 public:
  struct Options {
    int num_blocks = 1;
    int block_size = 16;
    bool caching = true;  // false: nothing is published, so nothing is found
    FreeOrder free_order = FreeOrder::kAppend;
    int hash_bits = BlockPool::kAllBits;
    /// Tables have room for so many blocks from the start: a request that grows allocates nothing.
    /// 0: they grow as they must.
    int max_blocks_per_request = 0;
  };
  explicit KvCacheManager(const Options& options);

  /// The longest run of cached blocks that `tokens` begins with, but never the last token. Changes
  /// nothing and pins nothing: allocate_slots() does, in the same breath.
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens,
                                     const ExtraKeys& extra_keys = {}) const;

  /// Slots for num_new_tokens more tokens of a request. One that holds nothing yet begins with
  /// `computed`. False: too few blocks are free, hits on free blocks counted, and nothing has
  /// changed, the order of the free queue included.
  bool allocate_slots(int64_t id, int num_new_tokens, const ComputedBlocks& computed = {},
                      const ExtraKeys& extra_keys = {});

  /// K and V of the first num_computed tokens are written: blocks that are full of them can be
  /// found.
  void cache_blocks(int64_t id, std::span<const int32_t> tokens, int num_computed);

  /// Drops the request's references, last block first. What is published stays in the cache.
  /// Allocates nothing, so it can be done when something else has failed.
  void free(int64_t id);

  bool holds(int64_t id) const { return held_.contains(id); }
  const BlockTable& table(int64_t id) const;
  const BlockPool& pool() const { return pool_; }
  BlockPool& pool() { return pool_; }
  int block_size() const { return pool_.block_size(); }
  /// Slots of used blocks that hold a token; of a shared block, once.
  int64_t num_slots_used() const;

  /// Throws std::logic_error unless the pool is sound and every ref_cnt is the number of tables
  /// that hold the block.
  void check() const;

 private:
  struct Held {
    BlockTable table;
    ExtraKeys extra_keys;
    int num_published = 0;           // blocks, from the first one
    std::optional<uint64_t> hash;    // of the last published block
    std::optional<PrefixId> prefix;  // with the last published block
  };
  Held& find(int64_t id);
  void make_room(BlockTable& table, size_t more);

  bool caching_;
  size_t max_blocks_per_request_;
  BlockPool pool_;
  std::unordered_map<int64_t, Held> held_;
  std::vector<int32_t> ids_;  // of one call: kept for its memory
};

}  // namespace lesson08
