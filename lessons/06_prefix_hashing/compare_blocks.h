#pragma once

// Counts the elements that differ between blocks, bit for bit. This shows whether a block that was
// found holds the K and V that computing anew would have written. For tests and the attack only.

#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson06 {

struct BlockPair {
  int32_t first;   // a block of CompareBlocksArgs::first
  int32_t second;  // a block of CompareBlocksArgs::second
};

struct CompareBlocksArgs {
  lesson03::PagedKvCache* first = nullptr;  // may be the same cache as `second`
  lesson03::PagedKvCache* second = nullptr;
  std::span<const BlockPair> pairs;  // on the host
};

/// Throws std::out_of_range for a block that is not in its cache, and std::invalid_argument unless
/// both caches have the same number of layers and shape of blocks.
void check_compared(const CompareBlocksArgs& args);

/// Returns for each pair the number of elements of K and V (in FP8 also of scales), in all layers
/// and all slots, whose bits differ. 0.0 and -0.0 differ; a NaN is equal to itself. Calls
/// check_compared() first; waits for the stream.
std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args);
std::vector<int64_t> compare_blocks_cuda(const CompareBlocksArgs& args, const kv::Stream& stream);
inline std::vector<int64_t> compare_blocks(const CompareBlocksArgs& args,
                                           const kv::Stream& stream) {
  return KV_DISPATCH(compare_blocks, args, stream);
}

}  // namespace lesson06
