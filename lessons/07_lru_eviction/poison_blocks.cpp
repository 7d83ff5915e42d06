#include "poison_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace lesson07 {

void check_poisoned(const PoisonBlocksArgs& args) {
  for (const int32_t id : args.block_ids) {
    if (id < 0 || id >= args.regions->num_blocks()) {
      throw std::out_of_range(fmt::format("poison_blocks: there is no block {}, the cache has {}",
                                          id, args.regions->num_blocks()));
    }
  }
}

void poison_blocks_cpu(const PoisonBlocksArgs& args) {
  check_poisoned(args);
  for (const lesson05::Region& region : args.regions->list()) {
    for (const int32_t id : args.block_ids) std::memset(region.block(id), 0xFF, region.bytes);
  }
}

}  // namespace lesson07
