#pragma once

// Sequences over a pool that is a cache. Source: vLLM v1's KVCacheManager (v0.22.1:
// vllm/v1/core/kv_cache_manager.py).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "block_pool.h"
#include "lessons/03_paged_blocks/block_manager.h"
#include "lessons/03_paged_blocks/block_table.h"

namespace lesson07 {

using lesson03::blocks_for;
using lesson03::BlockTable;
using lesson03::Growth;

/// A sequence's number is never given again. Unknown numbers throw std::out_of_range that names
/// them; nothing has changed then.
class BlockManager {
 public:
  /// Throws std::invalid_argument unless both numbers are at least 1.
  BlockManager(int num_blocks, int block_size, FreeOrder order = FreeOrder::kAppend,
               int hash_bits = BlockPool::kAllBits);

  struct Start {
    int seq = 0;
    int num_cached_tokens = 0;
  };
  /// A new sequence with these tokens: what the cache has (at most all but the last token), and new
  /// slots for the rest. No value: too few blocks are free. Nothing has changed then: what was
  /// found is looked at first, and pinned only when the rest fits.
  std::optional<Start> start(std::span<const int32_t> tokens, ExtraKeys extra_keys = {});

  /// Slots for all of `growths`, or none at all: false if too few blocks are free.
  bool extend(std::span<const Growth> growths);
  /// K and V of all the sequence's slots are written; `tokens` are its tokens. Blocks that have
  /// become full can be found from now on.
  void publish(int seq, std::span<const int32_t> tokens);
  /// Drops the sequence's references, last block first, and forgets it. Allocates nothing, so it
  /// can be done when something else has failed.
  void free_sequence(int seq);
  /// Forgets all cached content. False, and nothing has changed, while a sequence holds a block.
  bool reset_prefix_cache() { return pool_.reset_prefix_cache(); }

  const BlockTable& table(int seq) const;
  const BlockPool& pool() const { return pool_; }
  BlockPool& pool() { return pool_; }
  int block_size() const { return pool_.block_size(); }
  std::vector<int> sequences() const;  // ascending
  int64_t num_tokens_asked() const { return num_asked_; }
  int64_t num_tokens_found() const { return num_found_; }

  /// Throws std::logic_error unless the pool is sound and every ref_cnt is the number of tables
  /// that hold the block.
  void check() const;

 private:
  struct Sequence {
    BlockTable table;
    ExtraKeys extra_keys;
    int num_published = 0;           // blocks, from the first one
    std::optional<uint64_t> hash;    // of the last published block
    std::optional<PrefixId> prefix;  // with the last published block
  };
  Sequence& find(int seq);
  void make_room(BlockTable& table, size_t num_blocks);
  /// The longest run of cached blocks; fills the sequence's hash and prefix.
  std::vector<int32_t> computed_blocks(std::span<const int32_t> tokens, Sequence& sequence) const;

  BlockPool pool_;
  std::map<int, Sequence> sequences_;
  std::vector<int32_t> freed_;  // of one call: kept for its memory
  int next_seq_ = 0;
  int64_t num_asked_ = 0, num_found_ = 0;
};

}  // namespace lesson07
