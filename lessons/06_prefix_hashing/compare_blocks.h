#pragma once

// Counts the elements that differ between blocks, bit for bit. This shows whether a block that was
// found holds the K and V that computing it again would write. Only tests and the attack call it.

#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "lessons/05_refcount_cow/block_regions.h"

namespace lesson06 {

using lesson05::BlockRegions;

struct BlockPair {
  int32_t first;   // a block of CompareBlocksArgs::first
  int32_t second;  // a block of CompareBlocksArgs::second
};

struct CompareBlocksArgs {
  const BlockRegions* first = nullptr;  // may be those of the same cache as `second`
  const BlockRegions* second = nullptr;
  std::span<const BlockPair> pairs;  // on the host
};

/// Throws std::out_of_range for a block that is not in its cache, and std::invalid_argument unless
/// both caches have the same number of regions, and blocks of the same size in each.
void check_compared(const CompareBlocksArgs& args);

/// Returns for each pair the number of elements of K and V, in all layers and all slots, whose bits
/// differ. An element has the activation dtype. 0.0 and -0.0 differ; a NaN is equal to itself.
/// Calls check_compared() first; waits for the stream.
std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args);
std::vector<int64_t> compare_blocks_cuda(const CompareBlocksArgs& args, const kv::Stream& stream);
inline std::vector<int64_t> compare_blocks(const CompareBlocksArgs& args,
                                           const kv::Stream& stream) {
  return KV_DISPATCH(compare_blocks, args, stream);
}

}  // namespace lesson06
