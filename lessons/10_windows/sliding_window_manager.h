#pragma once

// Block tables of a group that forgets: a block that no later query reads goes back to the pool at
// once, and the null block takes its place in the table. So a token at position p is still found
// through entry p / block_size. Source: vLLM's SlidingWindowManager (v0.22.1:
// vllm/v1/core/single_type_kv_cache_manager.py).

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache_groups.h"
#include "lessons/06_prefix_hashing/kv_cache_manager.h"

namespace lesson10 {

using lesson03::blocks_for;
using lesson06::BlockTable;
using lesson07::BlockPool;

/// One group besides group 0. Who calls it has looked whether the pool has enough blocks.
class SlidingWindowManager {
 public:
  /// Borrows the pool. window 0: nothing falls out. Throws std::invalid_argument for a window that
  /// is negative, and for group 0.
  SlidingWindowManager(BlockPool& pool, int group, int window);

  int group() const { return group_; }
  int window() const { return window_; }

  /// So many tokens at the beginning are seen by no query that is still to come.
  int num_skipped_tokens(int num_computed) const;
  /// Blocks that a request of num_tokens tokens holds at most at once, if no pass computes more
  /// than max_new_tokens of them. 0: no limit.
  int64_t max_blocks(int64_t num_tokens, int max_new_tokens) const;

  /// The longest prefix that this group can go on after, within the blocks `full`, a run of group
  /// 0's that was found: table entries for it, null blocks and then those that a next query sees.
  /// `num_refused` grows by the blocks with a right hash and another content.
  std::vector<int32_t> find_longest_cache_hit(std::span<const int32_t> full,
                                              int64_t& num_refused) const;

  /// A new request with these entries, and room for num_blocks blocks. Takes no references yet. A
  /// request that grows no further allocates no memory.
  void add(int64_t id, std::span<const int32_t> entries, int num_blocks);
  /// Takes the references of a request that was added.
  void touch(int64_t id) { pool_->touch(held_blocks(request(id))); }
  /// Room for num_new_blocks more blocks.
  void reserve(int64_t id, int num_new_blocks);
  /// num_tokens more tokens, in these new blocks.
  void extend(int64_t id, int num_tokens, std::span<const int32_t> new_blocks);

  /// Blocks that have fallen out when num_computed tokens are computed, but are still held.
  std::span<const int32_t> skipped_blocks(int64_t id, int num_computed) const;
  /// Gives them back. What they hold can be found as long as nobody takes them.
  void remove_skipped_blocks(int64_t id, int num_computed);

  /// The first num_blocks blocks are full and computed: those that are held can be found from now
  /// on. `full` is group 0's table, whose blocks can be found already.
  void cache_blocks(int64_t id, std::span<const int32_t> full, int num_blocks);

  /// Drops the request's references and forgets it. Allocates nothing.
  void free(int64_t id);
  /// Forgets a request whose references were never taken.
  void forget(int64_t id) { requests_.erase(id); }

  /// Its entries before first_block() are null blocks.
  const BlockTable& table(int64_t id) const;
  int first_block(int64_t id) const;
  std::vector<int64_t> requests() const;
  /// Throws std::logic_error unless each table has null blocks in front and blocks after them, as
  /// many as its tokens fill. Counts the tables that hold each block.
  void count_tables(std::unordered_map<int32_t, int>& num_tables) const;

 private:
  struct Request {
    BlockTable table;
    int num_null = 0;    // entries in front that are null blocks
    int num_cached = 0;  // blocks in front that can be found, or could be when they fell out
  };
  /// Those of a request in the table, without the null blocks.
  std::span<const int32_t> held_blocks(const Request& request) const;
  Request& request(int64_t id);
  const Request& request(int64_t id) const;

  BlockPool* pool_;
  int group_;
  int window_;
  int num_needed_;  // blocks in a row that a query after them may see
  std::unordered_map<int64_t, Request> requests_;
};

}  // namespace lesson10
