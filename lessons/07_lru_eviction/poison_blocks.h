#pragma once

// Fills free blocks with NaN so that a stale read shows up in the output.

#include <cstdint>
#include <span>

#include "common/device.h"
#include "lessons/05_refcount_cow/block_regions.h"

namespace lesson07 {

struct PoisonBlocksArgs {
  const lesson05::BlockRegions* regions = nullptr;
  std::span<const int32_t> block_ids;   // on the host
  kv::DeviceBuffer* scratch = nullptr;  // CUDA only: room for the ids, grown as needed
};

/// Throws std::out_of_range for a block that is not in the cache.
void check_poisoned(const PoisonBlocksArgs& args);

/// Sets all bits of the blocks in all layers: K and V become NaN in every floating-point type. All
/// ids are checked before the first write.
void poison_blocks_cpu(const PoisonBlocksArgs& args);
void poison_blocks_cuda(const PoisonBlocksArgs& args, const kv::Stream& stream);
inline void poison_blocks(const PoisonBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(poison_blocks, args, stream);
}

}  // namespace lesson07
