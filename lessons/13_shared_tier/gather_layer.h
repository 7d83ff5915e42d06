#pragma once

// One layer of blocks to the host, while the pass computes the next layer. All layers together
// make what lesson 11's swap_blocks() makes of whole blocks. Source: vLLM's save_kv_layer
// (v0.22.1: vllm/distributed/kv_transfer/kv_connector/v1/base.py).

#include <span>

#include "common/device.h"
#include "lessons/11_host_tier/host_blocks.h"
#include "lessons/11_host_tier/transfers.h"

namespace lesson13 {

using lesson11::BlockMove;
using lesson11::BlockRegions;
using lesson11::HostBlocks;
using lesson11::PagedKvCache;

struct GatherLayerArgs {
  const BlockRegions* regions = nullptr;
  const HostBlocks* host = nullptr;  // see HostBlocks
  int layer = 0;
  std::span<const BlockMove> moves;  // from device to host; may be reused when the call returns
};

/// Throws std::out_of_range for a layer or an id that is not there.
void check_gather(const GatherLayerArgs& args);

/// Both call check_gather() first. No host block is named twice.
void gather_layer_cpu(const GatherLayerArgs& args);
void gather_layer_cuda(const GatherLayerArgs& args, const kv::Stream& stream);
inline void gather_layer(const GatherLayerArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(gather_layer, args, stream);
}

}  // namespace lesson13
