#pragma once

// Which request holds which blocks, and which of its tokens the cache has. Only full blocks are
// shared, and a full block is never written again, so nothing is copied on write. Source: vLLM v1's
// KVCacheManager (v0.22.1: vllm/v1/core/kv_cache_manager.py).

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "block_pool.h"
#include "lessons/03_paged_blocks/block_table.h"

namespace lesson06 {

using lesson03::blocks_for;
using lesson03::BlockTable;
/// The number of tables that hold a block, of each block that is in one.
using NumTables = std::unordered_map<int32_t, int>;

/// The leading blocks of a request that are in the cache: what the key of the next block depends
/// on.
struct PrefixChain {
  int num_blocks = 0;
  std::optional<PrefixId> prefix;  // up to the end of the last of these blocks
};
/// The key of the block after the chain; `tokens` and `hashes` are the request's.
BlockKey next_key(const PrefixChain& chain, std::span<const int32_t> tokens,
                  const BlockHashes& hashes, int block_size);

/// The blocks that hold a request's first tokens.
struct ComputedBlocks {
  std::vector<int32_t> block_ids;  // [chain.num_blocks], first to last
  int num_tokens = 0;              // in these blocks
  PrefixChain chain;
  int64_t num_refused = 0;  // candidates with the right hash but different content
  int num_queried = 0;      // tokens looked up; 0 if the lookup does not count in the hit rate
};
inline const ComputedBlocks kNone;

/// Requests that were looked up and began, their tokens, and the tokens that were found. Source:
/// vLLM's PrefixCacheStats (v0.22.1: vllm/v1/metrics/stats.py).
struct PrefixCacheStats {
  int64_t requests = 0, queries = 0, hits = 0;
  double hit_rate() const {
    return queries > 0 ? static_cast<double>(hits) / static_cast<double>(queries) : 0;
  }
};

struct CacheManagerOptions {
  BlockHasher hasher = {};
  bool caching = true;  // false: no block can be found
};

/// Block tables of the requests that hold blocks, by request id. Unknown ids throw
/// std::out_of_range that names them. A call that throws or refuses changes nothing.
class KvCacheManager {
 public:
  /// Borrows the pool.
  explicit KvCacheManager(CachePool& pool, const CacheManagerOptions& options = {});

  /// Finds the longest run of full blocks at the start of `tokens` that the cache has. It never
  /// includes the last token, which has to run to give logits. `hashes` are the request's, here and
  /// in cache_blocks(); missing ones are computed. allocate_slots() takes the references.
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens, BlockHashes& hashes) const;

  /// Gives a request slots for num_new_tokens more tokens. A request without blocks begins with
  /// `computed`; nothing may change between that lookup and this call. Returns the new blocks, in
  /// the request's table. Returns no value if too few blocks are free, where a hit on a free block
  /// needs that block, too. Then nothing has changed, not even the order of the free blocks.
  std::optional<std::span<const int32_t>> allocate_slots(int64_t id, int num_new_tokens,
                                                         const ComputedBlocks& computed = kNone);

  /// Makes the full blocks of the request's first num_computed tokens findable. Their K and V are
  /// written.
  void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                    int num_computed);

  /// Drops the request's references and forgets it. Its full blocks can be found until they are
  /// reused for something else. Allocates nothing.
  void free(int64_t id);

  /// Forgets all cached content and the statistics, say after new weights. Returns false,
  /// and changes nothing, while a request holds a block.
  bool reset_prefix_cache();

  // What is held, and what a request would take.
  bool holds(int64_t id) const { return requests_.contains(id); }
  const BlockTable& table(int64_t id) const;
  const CachePool& pool() const { return *pool_; }
  int block_size() const { return pool_->block_size(); }
  /// The most blocks that a request of num_tokens tokens holds at any time.
  int64_t max_blocks(int64_t num_tokens) const;
  /// Free blocks that a request takes if it begins with `computed` and gets slots for
  /// num_new_tokens more: new blocks, and hits on blocks that no request holds.
  int64_t num_blocks_to_allocate(const ComputedBlocks& computed, int num_new_tokens) const;
  int64_t num_slots_used() const;  // slots with a token; a shared block's count once

  // Statistics and checks.
  /// Since the last reset.
  const PrefixCacheStats& prefix_cache_stats() const { return stats_; }
  /// Counts the tables that hold each block.
  void count_tables(NumTables& num_tables) const;
  /// Throws std::logic_error unless the pool is sound, and its counts are those of the tables.
  void check() const;

 private:
  struct Request {
    BlockTable table;
    PrefixChain chain;
  };

  CachePool* pool_;
  CacheManagerOptions options_;
  std::unordered_map<int64_t, Request> requests_;
  PrefixCacheStats stats_;
};

/// Free blocks among those that were found. A hit on a free block takes it from the others.
int64_t num_revived(const CachePool& pool, std::span<const int32_t> hits);

}  // namespace lesson06
