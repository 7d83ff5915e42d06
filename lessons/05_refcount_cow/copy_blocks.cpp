#include "copy_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <unordered_set>

namespace lesson05 {

void check_copies(const CopyBlocksArgs& args) {
  const int num_blocks = args.regions->num_blocks();
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
  for (const Region& region : args.regions->list()) {
    for (const BlockCopy& copy : args.copies) {
      std::memcpy(region.block(copy.destination), region.block(copy.source), region.bytes);
    }
  }
}

}  // namespace lesson05
