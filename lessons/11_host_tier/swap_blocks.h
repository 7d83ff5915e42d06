#pragma once

// Blocks between the device and the host: all regions of many blocks in one launch.
// Source: vLLM's swap_blocks (csrc/cache_kernels.cu).

#include <span>

#include "common/device.h"
#include "host_blocks.h"
#include "transfers.h"

namespace lesson11 {

struct SwapBlocksArgs {
  const BlockRegions* regions = nullptr;  // the device's blocks
  const HostBlocks* host = nullptr;       // the host's blocks
  Direction direction = Direction::kOffload;
  std::span<const BlockMove> moves;  // on the host; may be reused as soon as the call returns
  int max_ctas = 0;                  // CUDA: CTAs that copy; 0 means as few as keep the bus busy
};

/// Throws std::out_of_range for an id outside the regions or the host's blocks, and
/// std::invalid_argument for a destination that is named twice.
void check_moves(const SwapBlocksArgs& args);

/// Both call check_moves() first. On CUDA the copies are in order with the stream's other work.
void swap_blocks_cpu(const SwapBlocksArgs& args);
void swap_blocks_cuda(const SwapBlocksArgs& args, const kv::Stream& stream);
inline void swap_blocks(const SwapBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(swap_blocks, args, stream);
}

}  // namespace lesson11
