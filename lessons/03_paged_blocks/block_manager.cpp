#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace lesson03 {

std::map<int, int> tokens_by_sequence(std::span<const Growth> growths) {
  std::map<int, int> more;
  for (const Growth& growth : growths) {
    int& sum = more[growth.seq];
    const int64_t tokens = int64_t{sum} + growth.num_tokens;
    if (growth.num_tokens < 0 || tokens > INT32_MAX) {
      throw std::invalid_argument(fmt::format("BlockManager: {} tokens and {} more for sequence {}",
                                              sum, growth.num_tokens, growth.seq));
    }
    sum = static_cast<int>(tokens);
  }
  return more;
}

BlockManager::BlockManager(int num_blocks, int block_size)
    : block_size_(BlockTable(block_size).block_size()), pool_(num_blocks) {}

int BlockManager::add_sequence() {
  tables_.emplace(next_seq_, BlockTable(block_size_));
  return next_seq_++;
}

bool BlockManager::extend(std::span<const Growth> growths) {
  // Everything that can fail happens to copies of the tables; then the copies take their place.
  std::map<int, BlockTable> grown;
  std::vector<int32_t> blocks;
  int64_t wanted = 0;
  for (const Growth& growth : growths) {
    BlockTable& table = grown.try_emplace(growth.seq, find(growth.seq)).first->second;
    const int more = table.blocks_to_extend(growth.num_tokens);
    wanted += more;
    if (wanted > pool_.num_free()) return false;
    const std::vector<int32_t> later(static_cast<size_t>(more));  // ids come when all of them fit
    table.extend(growth.num_tokens, later);
  }
  if (!pool_.allocate(static_cast<int>(wanted), blocks)) return false;
  auto block = blocks.begin();
  for (auto& [seq, table] : grown) {
    BlockTable& old = find(seq);
    for (int i = old.num_blocks(); i < table.num_blocks(); ++i) table.replace(i, *block++);
    old = std::move(table);
  }
  return true;
}

void BlockManager::free_sequence(int seq) {
  const std::span<const int32_t> ids = find(seq).block_ids();
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

BlockTable& BlockManager::find(int seq) { return const_cast<BlockTable&>(table(seq)); }

int64_t BlockManager::num_tokens() const {
  int64_t sum = 0;
  for (const auto& [seq, table] : tables_) sum += table.num_tokens();
  return sum;
}

void BlockManager::check() const {
  std::vector<int> owner(static_cast<size_t>(pool_.num_blocks()), -1);
  int in_tables = 0;
  for (const auto& [seq, table] : tables_) {
    if (table.num_blocks() != blocks_for(table.num_tokens(), block_size_)) {
      throw std::logic_error(fmt::format("sequence {} has {} blocks for {} tokens", seq,
                                         table.num_blocks(), table.num_tokens()));
    }
    for (const int32_t id : table.block_ids()) {
      int& first = owner.at(static_cast<size_t>(id));
      if (first >= 0) {
        throw std::logic_error(
            fmt::format("block {} is in the tables of sequences {} and {}", id, first, seq));
      }
      first = seq;
      ++in_tables;
      if (!pool_.is_used(id))
        throw std::logic_error(
            fmt::format("block {} is free, but in the table of sequence {}", id, seq));
    }
  }
  if (in_tables != pool_.num_used()) {
    throw std::logic_error(
        fmt::format("{} blocks are used, but {} are in tables", pool_.num_used(), in_tables));
  }
}

}  // namespace lesson03
