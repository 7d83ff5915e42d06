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
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const lesson03::KvBlocks blocks = cache.layer(layer);
    for (const int32_t id : args.block_ids) {
      for (int i = 0; i < blocks.num_pieces(); ++i) {
        const lesson03::Piece piece = blocks.piece(id, i);
        std::memset(piece.data, 0xFF, static_cast<size_t>(piece.bytes));
      }
    }
  }
}

}  // namespace lesson07
