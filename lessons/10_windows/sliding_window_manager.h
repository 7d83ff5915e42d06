#pragma once

// Block tables of a group that forgets. A block that no later query reads goes back to the pool at
// once, and the null block takes its place in the table. So a token at position p is still found
// through entry p / block_size. Source: vLLM's SlidingWindowManager (v0.22.1:
// vllm/v1/core/single_type_kv_cache_manager.py).

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache_groups.h"
#include "lessons/06_prefix_hashing/kv_cache_manager.h"

namespace lesson10 {

using lesson03::blocks_for;
using lesson03::BlockTable;
using lesson07::BlockPool;

/// One group besides group 0. The caller has checked that the pool has enough blocks.
class SlidingWindowManager {
 public:
  /// Borrows the pool. With window 0 nothing falls out. Throws std::invalid_argument for a window
  /// that is negative, and for group 0.
  SlidingWindowManager(BlockPool& pool, int group, int window);

  /// The number of leading tokens that no later query sees.
  int num_skipped_tokens(int num_computed) const;

  /// Finds the longest prefix that this group can continue. `full` is the run of group 0's
  /// blocks that was found; the prefix ends with one of them. Returns table entries for it: null
  /// blocks, then the blocks that the next query sees. Adds to `num_refused` the blocks with the
  /// right hash but different content.
  std::vector<int32_t> find_longest_cache_hit(std::span<const int32_t> full,
                                              int64_t& num_refused) const;

  /// Adds a request that begins with these table entries, and takes their references.
  void add(int64_t id, std::span<const int32_t> entries);
  /// Adds num_tokens tokens, in new blocks. If there is no memory, nothing has changed.
  void extend(int64_t id, int num_tokens) {
    pool_->get_new_blocks(requests_.at(id).table.extend(num_tokens));
  }

  /// The blocks still held that no later query needs once num_computed tokens are computed.
  std::span<const int32_t> skipped_blocks(int64_t id, int num_computed) const;
  /// Gives these blocks back. They stay cached until they are reused for something else.
  void remove_skipped_blocks(int64_t id, int num_computed);

  /// Caches those of the first num_blocks blocks that are held; they are full and computed. `full`
  /// is group 0's table, whose blocks are cached already.
  void cache_blocks(int64_t id, std::span<const int32_t> full, int num_blocks);

  /// Drops the request's references and forgets it. Allocates nothing.
  void free(int64_t id);

  bool holds(int64_t id) const { return requests_.contains(id); }
  /// The request's table; its entries before first_block() are null blocks.
  const BlockTable& table(int64_t id) const { return request(id).table; }
  int first_block(int64_t id) const { return request(id).num_null; }
  /// Counts the tables that hold each block, without the null block. Throws std::logic_error if a
  /// table has other blocks where there are null blocks.
  void count_tables(lesson06::NumTables& num_tables) const;

 private:
  struct Request {
    BlockTable table;
    int num_null = 0;    // entries in front that are null blocks
    int num_cached = 0;  // blocks in front that can be found, or could be when they fell out
  };
  /// The blocks in a request's table, without the null blocks.
  static std::span<const int32_t> held_blocks(const Request& of) {
    return of.table.block_ids().subspan(of.num_null);
  }
  const Request& request(int64_t id) const;

  BlockPool* pool_;
  int group_;
  int window_;
  int num_needed_;  // blocks in a row that a query after them may see
  std::unordered_map<int64_t, Request> requests_;
};

}  // namespace lesson10
