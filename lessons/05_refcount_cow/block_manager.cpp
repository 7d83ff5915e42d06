#include "block_manager.h"

#include <fmt/format.h>

#include <ranges>
#include <set>
#include <stdexcept>
#include <utility>

namespace lesson05 {

/// What an append is going to do. Made without changing anything.
struct BlockManager::Plan {
  struct Step {
    int seq;
    int num_tokens;
    int new_blocks;
    bool copies_last;  // the last block is copied first
  };
  std::vector<Step> steps;  // one for each sequence that grows
  int64_t num_blocks = 0;   // taken from the pool, for copies and growth
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
  std::map<int32_t, int> released;  // shares that earlier steps of this plan give up
  std::set<int> named;
  for (const auto& [seq, num_tokens] : growths) {
    const BlockTable& table = this->table(seq);
    if (!named.insert(seq).second) {
      throw std::invalid_argument(fmt::format("BlockManager: sequence {} is named twice", seq));
    }
    if (num_tokens == 0) continue;
    bool copies_last = false;
    if (table.num_tokens() % block_size_ != 0) {  // the last block has room
      const int32_t last = table.block_ids().back();
      copies_last = pool_.ref_cnt(last) - released[last] > 1;
      released[last] += copies_last;
    }
    const int new_blocks = table.blocks_to_extend(num_tokens);
    plan.steps.push_back({seq, num_tokens, new_blocks, copies_last});
    plan.num_blocks += new_blocks + copies_last;
  }
  return plan;
}

int64_t BlockManager::blocks_to_append(std::span<const Growth> growths) const {
  return plan(growths).num_blocks;
}

bool BlockManager::append(std::span<const Growth> growths) {
  const auto [steps, num_blocks] = plan(growths);
  if (num_blocks > pool_.num_free()) return false;

  // Memory for the lists comes first: from here on nothing but copy_ can throw.
  std::vector<int32_t> blocks;
  std::vector<BlockCopy> copies;
  blocks.reserve(static_cast<size_t>(num_blocks));
  for (const Plan::Step& step : steps) {
    BlockTable& table = tables_.at(step.seq);
    table.reserve(static_cast<size_t>(table.num_blocks() + step.new_blocks));
    if (step.copies_last) copies.push_back({.source = table.block_ids().back()});
  }
  // Allocate ...
  for (int64_t i = 0; i < num_blocks; ++i) blocks.push_back(*pool_.allocate());
  auto next = blocks.begin();
  for (BlockCopy& copy : copies) copy.destination = *next++;
  // ... copy ...
  try {
    if (copy_ && !copies.empty()) copy_(copies);
  } catch (...) {
    for (const int32_t id : blocks | std::views::reverse) pool_.release(id);
    throw;
  }
  // ... release the shares and repoint, and only then grow.
  auto copied = copies.begin();
  for (const Plan::Step& step : steps) {
    BlockTable& table = tables_.at(step.seq);
    if (step.copies_last) {
      pool_.release(copied->source);
      table.replace(table.num_blocks() - 1, copied++->destination);
    }
    table.extend(step.num_tokens, {next, static_cast<size_t>(step.new_blocks)});
    next += step.new_blocks;
  }
  num_copies_ += std::ssize(copies);
  return true;
}

void BlockManager::free_sequence(int seq) {
  for (const int32_t id : table(seq).block_ids() | std::views::reverse) pool_.release(id);
  tables_.erase(seq);
}

const BlockTable& BlockManager::table(int seq) const {
  const auto found = tables_.find(seq);
  if (found == tables_.end()) {
    throw std::out_of_range(fmt::format("BlockManager: there is no sequence {}", seq));
  }
  return found->second;
}

}  // namespace lesson05
