#include "copy_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include "common/base/parallel.h"

namespace lesson05 {

void check_copies(const CopyBlocksArgs& args) {
  const int num_blocks = args.cache->num_blocks();
  std::unordered_set<int32_t> sources, destinations;
  for (const auto& [source, destination] : args.copies) {
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
  const lesson03::PagedKvCache& cache = *args.cache;
  const int64_t num_layers = cache.num_layers();
  // K or V of one block in one layer.
  const auto bytes = static_cast<size_t>(cache.bytes_per_block() / num_layers / 2);
  const int64_t work = num_layers * std::ssize(args.copies);

  constexpr int64_t kBlocksWorthAThread = 4;
  kv::parallel_for(work, kBlocksWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const BlockCopy& copy = args.copies[static_cast<size_t>(i / num_layers)];
      const int layer = static_cast<int>(i % num_layers);
      const auto from = cache.block(layer, copy.source);
      const auto to = cache.block(layer, copy.destination);
      std::memcpy(to.k, from.k, bytes);
      std::memcpy(to.v, from.v, bytes);
    }
  });
}

}  // namespace lesson05
