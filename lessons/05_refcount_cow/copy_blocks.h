#pragma once

// Copies blocks inside a paged cache: all layers, K and V, any list of pairs, in one launch.
// Source: vLLM's copy_blocks (csrc/cache_kernels.cu; v0 used it for copy-on-write).

#include <cstdint>
#include <span>

#include "block_manager.h"
#include "common/base/device.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson05 {

struct CopyBlocksArgs {
  const lesson03::PagedKvCache* cache = nullptr;
  std::span<const BlockCopy> copies;  // on the host; may be reused as soon as the call returns
  /// CUDA only, else not used: the pairs' place on the device. Grown here when it is too small. Its
  /// owner keeps it until the stream is done with the call.
  kv::DeviceBuffer* scratch = nullptr;
};

/// Both first throw, before anything is written: std::out_of_range for an id outside the cache, and
/// std::invalid_argument for a destination that is named twice or is also a source, as then the
/// order of the copies would matter.
void copy_blocks_cpu(const CopyBlocksArgs& args);
/// In order with the stream's other work.
void copy_blocks_cuda(const CopyBlocksArgs& args, const kv::Stream& stream);
inline void copy_blocks(const CopyBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(copy_blocks, args, stream);
}

void check_copies(const CopyBlocksArgs& args);  // what both call first

}  // namespace lesson05
