// What must hold, spelled out: the bookkeeping at every moment, for tests and for the page, which
// checks it after each command; the pairs before a copy.

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "lessons/05_refcount_cow/block_manager.h"
#include "lessons/05_refcount_cow/copy_blocks.h"

namespace lesson05 {

void BlockManager::check() const {
  std::vector<int> ref_cnts(static_cast<size_t>(pool_.num_blocks()), 0);  // by the tables
  for (const auto& [seq, table] : tables_) {
    if (table.num_blocks() != blocks_for(table.num_tokens(), block_size_)) {
      throw std::logic_error(fmt::format("sequence {} has {} blocks for {} tokens", seq,
                                         table.num_blocks(), table.num_tokens()));
    }
    for (const int32_t id : table.block_ids()) ++ref_cnts.at(static_cast<size_t>(id));
  }
  int num_used = 0;
  for (int32_t id = 0; id < pool_.num_blocks(); ++id) {
    const int held = ref_cnts[static_cast<size_t>(id)];
    num_used += held > 0;
    if (held != pool_.ref_cnt(id)) {
      throw std::logic_error(fmt::format("block {} has ref count {}, but {} tables hold it", id,
                                         pool_.ref_cnt(id), held));
    }
  }
  if (num_used != pool_.num_used()) {
    throw std::logic_error(
        fmt::format("{} blocks are held, the pool counts {} used", num_used, pool_.num_used()));
  }
}

void check_copies(const CopyBlocksArgs& args) {
  const int num_blocks = args.cache->num_blocks();
  std::unordered_set<int32_t> sources, destinations;
  for (const BlockCopy& copy : args.copies) {
    const int32_t source = copy.source, destination = copy.destination;
    for (const int32_t id : {source, destination}) {
      if (id >= 0 && id < num_blocks) continue;
      throw std::out_of_range(
          fmt::format("copy_blocks: there is no block {}, the cache has {}", id, num_blocks));
    }
    sources.insert(source);
    if (!destinations.insert(destination).second || sources.contains(destination) ||
        destinations.contains(source)) {
      throw std::invalid_argument(
          fmt::format("copy_blocks: {} to {}: a destination is named again", source, destination));
    }
  }
}

}  // namespace lesson05
