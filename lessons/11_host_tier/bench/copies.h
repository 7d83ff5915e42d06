#pragma once

#include "swap_blocks.h"

namespace bench {

// The copies of swap_blocks_cuda, made by the driver, for which no SM works.

/// One call for each piece: K or V of a block in a layer.
void copy_pieces(const lesson11::SwapBlocksArgs& args, const kv::Stream& stream);
/// All pieces in one call of cudaMemcpyBatchAsync.
void copy_batch(const lesson11::SwapBlocksArgs& args, const kv::Stream& stream);
/// The same number of bytes in one piece, to `flat` or from it: the limit for the others.
void copy_flat(const lesson11::SwapBlocksArgs& args, const kv::DeviceBuffer& flat,
               const kv::Stream& stream);

}  // namespace bench
