#pragma once

// K and V of blocks in the host's memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/device.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson11 {

using lesson03::PagedKvCache;

/// [num_ids][num_layers][K, V][block_size, num_kv_heads, head_dim], in the data type of the cache:
/// all of a block lies together, as one record of a file does. Pinned, with CUDA: the device reads
/// and writes it itself.
class HostBlocks {
 public:
  /// For blocks 0 .. num_ids - 1 of the cache's shape. Throws DeviceError, with the bytes asked
  /// for, if the memory cannot be had.
  HostBlocks(const PagedKvCache& cache, kv::Device device, int num_ids);

  int num_ids() const { return num_ids_; }
  size_t bytes_per_block() const { return bytes_per_block_; }
  std::byte* data() const { return buffer_.as<std::byte>(); }
  std::span<std::byte> block(int32_t id) const {
    return {data() + static_cast<size_t>(id) * bytes_per_block_, bytes_per_block_};
  }

 private:
  int num_ids_;
  size_t bytes_per_block_;
  kv::HostBuffer buffer_;
};

}  // namespace lesson11
