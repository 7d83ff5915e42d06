#pragma once

// Sequences that find their beginnings in the cache. Only full blocks are shared, and nobody writes
// into a full block, so nothing is ever copied on write. Source: vLLM v1's KVCacheManager (v0.22.1:
// vllm/v1/core/kv_cache_manager.py: get_computed_blocks, allocate_slots, free).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "block_hash.h"
#include "block_pool.h"
#include "lessons/03_paged_blocks/block_manager.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "prefix_index.h"

namespace lesson06 {

using lesson03::blocks_for;
using lesson03::BlockTable;
using lesson03::Growth;

/// A sequence's number is never given again. Unknown numbers throw std::out_of_range that names
/// them; nothing has changed then.
class BlockManager {
 public:
  /// Throws std::invalid_argument unless both numbers are at least 1.
  BlockManager(int num_blocks, int block_size, BlockHasher hasher = xxh64_block,
               PrefixIndex::Check check = PrefixIndex::Check::kExact);

  struct Start {
    int seq = 0;
    int num_cached_tokens = 0;  // they have their slots, and K and V stand there
  };
  /// A new sequence that begins with `tokens`. Its table holds the longest run of full blocks from
  /// token 0 on that the cache has, but never the last token: somebody has to run to give logits.
  /// What is found is pinned at once, before anybody else can overwrite it. Takes no other block.
  Start start(std::span<const int32_t> tokens);

  /// Slots for all of `growths`, or none at all: false if the pool has too few free blocks. A free
  /// block that is taken loses its old content.
  bool extend(std::span<const Growth> growths);

  /// K and V of all the sequence's slots are written; `tokens` are the sequence's tokens, at least
  /// as many as it has slots. Blocks that have become full can be found from now on.
  void publish(int seq, std::span<const int32_t> tokens);

  /// Drops the sequence's references, first block first, and forgets it. What its full blocks hold
  /// can be found until they are taken for something else.
  void free_sequence(int seq);

  const BlockTable& table(int seq) const;
  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  int block_size() const { return block_size_; }
  std::vector<int> sequences() const;  // ascending

  int64_t num_tokens_asked() const { return num_asked_; }  // of all start()s
  int64_t num_tokens_found() const { return num_found_; }  // of these, in the cache

  /// Throws std::logic_error unless free + used == total, every ref count is the number of tables
  /// that hold the block, and the index is sound.
  void check() const;

 private:
  struct Sequence {
    BlockTable table;
    int num_published = 0;           // blocks, from the first one
    std::optional<uint64_t> hash;    // of the last published block
    std::optional<PrefixId> prefix;  // with the last published block
  };
  Sequence& find(int seq);

  int block_size_;
  BlockHasher hasher_;
  BlockPool pool_;
  PrefixIndex index_;
  std::map<int, Sequence> sequences_;
  int next_seq_ = 0;
  int64_t num_asked_ = 0, num_found_ = 0;
};

}  // namespace lesson06
