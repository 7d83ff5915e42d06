#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>
#include <utility>

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
  const BlockTable& parent = table(seq);
  tables_.emplace(next_seq_, parent);
  for (const int32_t id : parent.block_ids()) pool_.add_ref(id);
  return next_seq_++;
}

BlockManager::Plan BlockManager::plan(std::span<const Growth> growths) const {
  Plan plan;
  std::unordered_map<int32_t, int> released;  // shares that earlier steps of this plan give up
  for (const auto& [seq, num_tokens] : lesson03::tokens_by_sequence(growths)) {
    const BlockTable& table = this->table(seq);
    if (num_tokens == 0) continue;
    Plan::Step step{.seq = seq,
                    .num_tokens = num_tokens,
                    .new_blocks = table.blocks_to_extend(num_tokens),
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
  const Plan plan = this->plan(growths);
  if (plan.num_blocks > pool_.num_free()) return false;

  // Memory for the lists comes first: from here on nothing but copy_ can throw.
  std::vector<int32_t> blocks;
  std::vector<BlockCopy> copies;
  blocks.reserve(static_cast<size_t>(plan.num_blocks));
  copies.reserve(plan.num_copies);
  for (const Plan::Step& step : plan.steps) {
    BlockTable& table = find(step.seq);
    table.reserve(static_cast<size_t>(table.num_blocks() + step.new_blocks));
  }
  // Allocate ...
  for (int64_t i = 0; i < plan.num_blocks; ++i) blocks.push_back(*pool_.allocate());
  for (const Plan::Step& step : plan.steps) {
    if (step.copied_block < 0) continue;
    copies.push_back(
        {.source = table(step.seq).block_ids().back(), .destination = blocks[copies.size()]});
  }
  // ... copy ...
  try {
    if (copy_ && !copies.empty()) copy_(copies);
  } catch (...) {
    for (auto id = blocks.rbegin(); id != blocks.rend(); ++id) pool_.release(*id);
    throw;
  }
  // ... release the shares and repoint, and only then grow.
  const BlockCopy* copied = copies.data();
  std::span<const int32_t> fresh = std::span(blocks).subspan(copies.size());
  for (const Plan::Step& step : plan.steps) {
    BlockTable& table = find(step.seq);
    if (step.copied_block >= 0) {
      pool_.release(copied->source);
      table.replace(step.copied_block, copied->destination);
      ++copied;
    }
    const auto count = static_cast<size_t>(step.new_blocks);
    table.extend(step.num_tokens, fresh.first(count));
    fresh = fresh.subspan(count);
  }
  num_copies_ += static_cast<int64_t>(plan.num_copies);
  return true;
}

bool BlockManager::make_last_block_writable(int seq) {
  BlockTable& table = find(seq);
  if (table.num_blocks() == 0) {
    throw std::logic_error(fmt::format("BlockManager: sequence {} has no block to write to", seq));
  }
  const int32_t last = table.block_ids().back();
  if (pool_.ref_cnt(last) == 1) return true;
  const auto own = pool_.allocate();
  if (!own) return false;
  try {
    const BlockCopy copy{.source = last, .destination = *own};
    if (copy_) copy_({&copy, 1});
  } catch (...) {
    pool_.release(*own);
    throw;
  }
  pool_.release(last);
  table.replace(table.num_blocks() - 1, *own);
  ++num_copies_;
  return true;
}

void BlockManager::free_sequence(int seq) {
  const std::span<const int32_t> ids = find(seq).block_ids();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) pool_.release(*id);
  tables_.erase(seq);
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
