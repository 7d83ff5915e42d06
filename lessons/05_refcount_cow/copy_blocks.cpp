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
  // K or V of one block in one layer.
  const auto bytes = static_cast<size_t>(cache.bytes_per_block() / cache.num_layers() / 2);
  for (const BlockCopy& copy : args.copies) {
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      const auto from = cache.block(layer, copy.source);
      const auto to = cache.block(layer, copy.destination);
      std::memcpy(to.k, from.k, bytes);
      std::memcpy(to.v, from.v, bytes);
    }
  }
}

}  // namespace lesson05
