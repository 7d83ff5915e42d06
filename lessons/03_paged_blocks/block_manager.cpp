#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace lesson03 {
namespace {

/// In a map that may or may not be const.
template <class Tables>
auto& find(Tables& tables, int seq) {
  const auto found = tables.find(seq);
  if (found == tables.end()) {
    throw std::out_of_range(fmt::format("BlockManager: there is no sequence {}", seq));
  }
  return found->second;
}

}  // namespace

BlockManager::BlockManager(int num_blocks, int block_size)
    : block_size_(BlockTable(block_size).block_size()), pool_(num_blocks) {}

int BlockManager::add_sequence() {
  tables_.emplace(next_seq_, BlockTable(block_size_));
  return next_seq_++;
}

bool BlockManager::extend(int seq, int num_tokens) {
  BlockTable& table = find(tables_, seq);
  const int wanted = table.blocks_to_extend(num_tokens);
  if (wanted > pool_.num_free()) return false;
  std::vector<int32_t> blocks(static_cast<size_t>(wanted));
  table.reserve(blocks.size() + static_cast<size_t>(table.num_blocks()));  // what may fail is done
  for (int32_t& id : blocks) id = pool_.allocate().value();
  table.extend(num_tokens, blocks);
  return true;
}

void BlockManager::free_sequence(int seq) {
  const std::span<const int32_t> ids = table(seq).block_ids();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) pool_.free(*id);
  tables_.erase(seq);
}

const BlockTable& BlockManager::table(int seq) const { return find(tables_, seq); }

int64_t BlockManager::num_tokens() const {
  int64_t sum = 0;
  for (const auto& [seq, table] : tables_) sum += table.num_tokens();
  return sum;
}

void BlockManager::check() const {
  std::vector<int> num_tables(static_cast<size_t>(pool_.num_blocks()), 0);
  for (const auto& [seq, table] : tables_) {
    if (table.num_blocks() != blocks_for(table.num_tokens(), block_size_)) {
      throw std::logic_error(fmt::format("sequence {} has {} blocks for {} tokens", seq,
                                         table.num_blocks(), table.num_tokens()));
    }
    for (const int32_t id : table.block_ids()) ++num_tables.at(static_cast<size_t>(id));
  }
  for (int32_t id = 0; id < pool_.num_blocks(); ++id) {
    const int found = num_tables[static_cast<size_t>(id)];
    if (found != (pool_.is_used(id) ? 1 : 0)) {
      throw std::logic_error(fmt::format("block {} is {}, but in {} tables", id,
                                         pool_.is_used(id) ? "used" : "free", found));
    }
  }
}

}  // namespace lesson03
