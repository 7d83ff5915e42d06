#include "poison_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace lesson07 {

void check_poisoned(const PoisonBlocksArgs& args) {
  for (const int32_t id : args.block_ids) {
    if (id < 0 || id >= args.cache->num_blocks()) {
      throw std::out_of_range(fmt::format("poison_blocks: there is no block {}, the cache has {}",
                                          id, args.cache->num_blocks()));
    }
  }
}

void poison_blocks_cpu(const PoisonBlocksArgs& args) {
  lesson03::PagedKvCache& cache = *args.cache;
  check_poisoned(args);
  const auto bytes = static_cast<size_t>(cache.bytes_per_block() / cache.num_layers() / 2);
  for (const int32_t id : args.block_ids) {
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      std::memset(cache.block(layer, id).k, 0xFF, bytes);
      std::memset(cache.block(layer, id).v, 0xFF, bytes);
    }
  }
}

}  // namespace lesson07
