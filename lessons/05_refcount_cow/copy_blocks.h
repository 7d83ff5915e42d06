#pragma once

// Copies blocks inside a paged cache: all layers, K and V, any list of pairs, in one launch.
// Source: vLLM's copy_blocks (csrc/cache_kernels.cu; v0 used it for copy-on-write).

#include <cstdint>
#include <span>

#include "block_manager.h"
#include "common/device.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson05 {

struct CopyBlocksArgs {
  const lesson03::PagedKvCache* cache = nullptr;
  std::span<const BlockCopy> copies;  // on the host; ids inside the cache, no destination a source
};

/// Both throw std::out_of_range for an id outside the cache, and std::invalid_argument for a
/// destination that is named twice or is also a source; nothing is written then.
void copy_blocks_cpu(const CopyBlocksArgs& args);
/// In order with the stream's other work.
void copy_blocks_cuda(const CopyBlocksArgs& args, const kv::Stream& stream);
inline void copy_blocks(const CopyBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(copy_blocks, args, stream);
}

}  // namespace lesson05
