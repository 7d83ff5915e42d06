#include "block_manager.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <utility>

#include "check_ref_counts.h"

namespace lesson05 {

/// An append, planned without changing anything.
struct BlockManager::Plan {
  std::vector<int> copying;  // sequences that copy their last block first
  int64_t num_blocks = 0;    // taken from the pool, for copies and growth
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

/// The sequences that have to copy their last block before they write, because others hold it, too.
/// If all holders of a block write, the last of them keeps it.
std::vector<int> BlockManager::must_copy(std::span<const Growth> growths) const {
  std::vector<int> copying;
  std::map<int32_t, int> given_up;  // references that earlier sequences drop, by block
  for (const auto& [seq, num_tokens] : growths) {
    const BlockTable& table = tables_.at(seq);
    if (num_tokens == 0 || table.num_tokens() % block_size_ == 0) continue;  // the last is full
    const int32_t last = table.block_ids().back();
    if (pool_.ref_cnt(last) - given_up[last] == 1) continue;
    ++given_up[last];
    copying.push_back(seq);
  }
  return copying;
}

BlockManager::Plan BlockManager::plan(std::span<const Growth> growths) const {
  Plan plan;
  std::set<int> named;
  for (const auto& [seq, num_tokens] : growths) {
    plan.num_blocks += table(seq).blocks_to_extend(num_tokens);
    if (!named.insert(seq).second) {
      throw std::invalid_argument(fmt::format("BlockManager: sequence {} is named twice", seq));
    }
  }
  if (tables_.size() > 1) plan.copying = must_copy(growths);  // one sequence shares nothing
  plan.num_blocks += std::ssize(plan.copying);
  return plan;
}

int64_t BlockManager::blocks_to_append(std::span<const Growth> growths) const {
  return plan(growths).num_blocks;
}

bool BlockManager::append(std::span<const Growth> growths) {
  const Plan plan = this->plan(growths);
  if (plan.num_blocks > pool_.num_free()) return false;
  if (!plan.copying.empty()) copy_on_write(plan.copying);
  for (const auto& [seq, num_tokens] : growths) {
    for (int32_t& id : tables_.at(seq).extend(num_tokens)) id = *pool_.allocate();
  }
  return true;
}

/// Replaces the last block of each of these sequences by a copy. The pool has a free block for
/// each.
void BlockManager::copy_on_write(std::span<const int> seqs) {
  std::vector<BlockCopy> copies;
  for (const int seq : seqs) {
    const int32_t shared = tables_.at(seq).block_ids().back();
    copies.push_back({.source = shared, .destination = *pool_.allocate()});
  }
  try {
    if (copy_) copy_(copies);
  } catch (...) {
    for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
      pool_.release(copy->destination);
    }
    throw;
  }
  for (size_t i = 0; i < seqs.size(); ++i) {
    BlockTable& table = tables_.at(seqs[i]);
    pool_.release(copies[i].source);
    table.replace(table.num_blocks() - 1, copies[i].destination);
  }
  num_copies_ += std::ssize(copies);
}

void BlockManager::free_sequence(int seq) {
  const auto ids = table(seq).block_ids();
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

void BlockManager::check() const {
  std::map<int32_t, int> num_tables;
  for (const auto& [seq, table] : tables_) {
    for (const int32_t id : table.block_ids()) ++num_tables[id];
  }
  check_ref_counts(pool_, num_tables);
}

}  // namespace lesson05
