#pragma once

#include "swap_blocks.h"

namespace bench {

// What swap_blocks_cuda does, by the driver's own copies, for which no SM works.

/// One call for each piece: K or V of a block in a layer.
void copy_pieces(const lesson11::SwapBlocksArgs& args, const kv::Stream& stream);
/// All pieces in one call of cudaMemcpyBatchAsync.
void copy_batch(const lesson11::SwapBlocksArgs& args, const kv::Stream& stream);
/// As many bytes in one piece, to `flat` or from it: the limit of them all.
void copy_flat(const lesson11::SwapBlocksArgs& args, const kv::DeviceBuffer& flat,
               const kv::Stream& stream);

}  // namespace bench
