#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson03 {

BlockManager::BlockManager(int num_blocks, int block_size)
    : block_size_(BlockTable(block_size).block_size()), pool_(num_blocks) {}

int BlockManager::add_sequence() {
  tables_.emplace(next_seq_, BlockTable(block_size_));
  return next_seq_++;
}

bool BlockManager::extend(int seq, int num_tokens) {
  if (table(seq).blocks_to_extend(num_tokens) > pool_.num_free()) return false;
  for (int32_t& id : tables_.at(seq).extend(num_tokens)) id = pool_.allocate().value();
  return true;
}

void BlockManager::free_sequence(int seq) {
  const std::span<const int32_t> ids = table(seq).block_ids();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) pool_.free(*id);
  tables_.erase(seq);
}

const BlockTable& BlockManager::table(int seq) const {
  const auto found = tables_.find(seq);
  if (found == tables_.end()) {
    throw std::out_of_range(fmt::format("BlockManager: there is no sequence {}", seq));
  }
  return found->second;
}

int64_t BlockManager::num_tokens() const {
  int64_t sum = 0;
  for (const auto& [seq, table] : tables_) sum += table.num_tokens();
  return sum;
}

}  // namespace lesson03
