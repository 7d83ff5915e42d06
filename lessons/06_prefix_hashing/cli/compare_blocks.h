#pragma once

// Counts what differs between blocks, bit for bit: whether a block that was found holds the K and V
// that computing anew would have written. A tool for tests and for the attack; no cache needs it.

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
  lesson03::PagedKvCache* first = nullptr;  // may be one cache
  lesson03::PagedKvCache* second = nullptr;
  std::span<const BlockPair> pairs;  // on the host
};

/// Throws std::out_of_range for a block that is not in its cache, and std::invalid_argument unless
/// the blocks of both caches have one shape and as many layers.
void check_compared(const CompareBlocksArgs& args);

/// [pairs]: elements of K and V, in all layers and all slots, that are not the same bits. 0.0 and
/// -0.0 differ; a NaN is equal to itself. Checked first; waits for the stream.
std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args);
std::vector<int64_t> compare_blocks_cuda(const CompareBlocksArgs& args, const kv::Stream& stream);
inline std::vector<int64_t> compare_blocks(const CompareBlocksArgs& args,
                                           const kv::Stream& stream) {
  return KV_DISPATCH(compare_blocks, args, stream);
}

}  // namespace lesson06
