#pragma once

// K and V of blocks in the host's memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/device.h"
#include "lessons/05_refcount_cow/block_regions.h"

namespace lesson11 {

using lesson03::PagedKvCache;
using lesson05::BlockRegions;

/// [num_ids][num_layers][K, V][block_size, num_kv_heads, head_dim]: a block's bytes from all
/// regions of the cache, back to back. With CUDA the memory is pinned, so that the device can read
/// and write it directly.
class HostBlocks {
 public:
  /// For blocks 0 .. num_ids - 1. Pinning takes a quarter of a second per GB. Throws DeviceError,
  /// with the bytes asked for, if the memory cannot be allocated.
  HostBlocks(int64_t bytes_per_block, kv::Device device, int num_ids)
      : num_ids_(num_ids),
        bytes_per_block_(bytes_per_block),
        buffer_(device, num_ids * bytes_per_block_) {}

  int num_ids() const { return num_ids_; }
  size_t bytes_per_block() const { return bytes_per_block_; }
  std::byte* data() const { return buffer_.as<std::byte>(); }
  std::span<std::byte> block(int32_t id) const {
    return {data() + id * bytes_per_block_, bytes_per_block_};
  }

 private:
  int num_ids_;
  size_t bytes_per_block_;
  kv::HostBuffer buffer_;
};

}  // namespace lesson11
