// Exercise of lesson 05: write what is missing here, then `./course exercise 5`.
// What each function promises stands in ../block_manager.h. The lesson's version is
// ../block_manager.cpp: try before you look.

#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "common/todo.h"
#include "holders.h"

namespace lesson05 {

/// What an append is going to do. Made without changing anything.
struct BlockManager::Plan {
  struct Step {
    int seq;
    int num_tokens;
    int new_blocks;
    int copied_block;  // logical index of the last block, copied first; -1: it is not
  };
  std::vector<Step> steps;  // one for each sequence that grows
  size_t num_copies = 0;
  int64_t num_blocks = 0;  // taken from the pool, for copies and growth
};

BlockManager::BlockManager(int num_blocks, int block_size, CopyBlocks copy)
    : block_size_(BlockTable(block_size).block_size()), pool_(num_blocks), copy_(std::move(copy)) {}

int BlockManager::add_sequence() {
  tables_.emplace(next_seq_, BlockTable(block_size_));
  return next_seq_++;
}

int BlockManager::fork(int seq) {
  // The table is copied, no block is. Each block has one owner more.
  KV_TODO("BlockManager::fork");
}

BlockManager::Plan BlockManager::plan(std::span<const Growth> growths) const {
  std::map<int, int64_t> more;  // tokens by sequence; one may be named more than once
  for (const Growth& growth : growths) {
    table(growth.seq).blocks_to_extend(growth.num_tokens);  // throws for what can never be
    more[growth.seq] += growth.num_tokens;
  }
  Plan plan;
  std::unordered_map<int32_t, int> released;  // shares that earlier steps of this plan give up
  for (const auto& [seq, num_tokens] : more) {
    if (num_tokens == 0) continue;
    const BlockTable& table = this->table(seq);
    if (num_tokens > INT32_MAX) throw std::invalid_argument("BlockManager: too many tokens");
    Plan::Step step{.seq = seq,
                    .num_tokens = static_cast<int>(num_tokens),
                    .new_blocks = table.blocks_to_extend(static_cast<int>(num_tokens)),
                    .copied_block = -1};
    const int fill = table.last_block_fill();
    if (fill != 0 && fill != block_size_) {
      const int32_t last = table.block_ids().back();
      if (pool_.ref_cnt(last) - released[last] > 1) {
        ++released[last];
        ++plan.num_copies;
        step.copied_block = table.num_blocks() - 1;
      }
    }
    plan.num_blocks += step.new_blocks;
    plan.steps.push_back(step);
  }
  plan.num_blocks += static_cast<int64_t>(plan.num_copies);
  return plan;
}

int64_t BlockManager::blocks_to_append(std::span<const Growth> growths) const {
  return plan(growths).num_blocks;
}

bool BlockManager::append(std::span<const Growth> growths) {
  // plan() says what to do and changes nothing: for each sequence the new blocks, and the logical
  // index of a shared tail that it has to copy first (-1: none). The order: allocate everything or
  // say no; tell copy_ all pairs in one call; release the shares and repoint; grow. If copy_
  // throws, give the blocks back, and nothing has changed.
  KV_TODO("BlockManager::append");
}

bool BlockManager::make_last_block_writable(int seq) {
  // The same for one sequence, whatever the fill of its last block: nothing to do for the only
  // owner, false if no block is free.
  KV_TODO("BlockManager::make_last_block_writable");
}

void BlockManager::free_sequence(int seq) {
  // A reference less for every block, the last one first. Then the table goes.
  KV_TODO("BlockManager::free_sequence");
}

const BlockTable& BlockManager::table(int seq) const {
  const auto found = tables_.find(seq);
  if (found == tables_.end()) {
    throw std::out_of_range(fmt::format("BlockManager: there is no sequence {}", seq));
  }
  return found->second;
}

BlockTable& BlockManager::find(int seq) { return const_cast<BlockTable&>(table(seq)); }

int64_t BlockManager::num_blocks_without_sharing() const {
  int64_t sum = 0;
  for (const auto& [seq, table] : tables_) sum += table.num_blocks();
  return sum;
}

void BlockManager::check() const {
  Holders holders(pool_.num_blocks());
  for (const auto& [seq, table] : tables_) holders.add(seq, table);
  for (int32_t id = 0; id < pool_.num_blocks(); ++id) holders.check(id, pool_.ref_cnt(id));
  if (holders.num_held() != pool_.num_used() ||
      holders.num_references() != pool_.num_references()) {
    throw std::logic_error(fmt::format("{} blocks are held, but the pool counts {} used",
                                       holders.num_held(), pool_.num_used()));
  }
}

}  // namespace lesson05
