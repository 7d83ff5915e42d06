#pragma once

// Copies blocks inside a paged cache: all regions of many pairs in one launch.
// Source: vLLM's copy_blocks (csrc/cache_kernels.cu; v0 used it for copy-on-write).

#include <cstdint>
#include <span>

#include "block_manager.h"
#include "block_regions.h"
#include "common/device.h"

namespace lesson05 {

struct CopyBlocksArgs {
  const BlockRegions* regions = nullptr;
  std::span<const BlockCopy> copies;  // on the host; may be reused as soon as the call returns
};

/// Throws std::out_of_range for an id outside the cache, and std::invalid_argument for a
/// destination that is named twice or is also a source. The order of the copies would matter then.
void check_copies(const CopyBlocksArgs& args);

/// Both call check_copies() first. On CUDA the copies are in order with the stream's other work.
void copy_blocks_cpu(const CopyBlocksArgs& args);
void copy_blocks_cuda(const CopyBlocksArgs& args, const kv::Stream& stream);
inline void copy_blocks(const CopyBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(copy_blocks, args, stream);
}

}  // namespace lesson05
