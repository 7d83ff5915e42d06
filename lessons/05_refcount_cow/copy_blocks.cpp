#include "copy_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <unordered_set>

namespace lesson05 {

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

void copy_blocks_cpu(const CopyBlocksArgs& args) {
  check_copies(args);
  lesson03::PagedKvCache& cache = *args.cache;
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const lesson03::KvBlocks blocks = cache.layer(layer);
    for (const BlockCopy& copy : args.copies) {
      for (int i = 0; i < blocks.num_pieces(); ++i) {
        const lesson03::Piece from = blocks.piece(copy.source, i);
        const lesson03::Piece to = blocks.piece(copy.destination, i);
        std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes));
      }
    }
  }
}

}  // namespace lesson05
