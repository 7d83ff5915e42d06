#pragma once

// K and V of all layers in blocks. Which block belongs to whom is the manager's business.

#include <cstdint>

#include "common/base/device.h"
#include "common/model/config.h"
#include "kv_blocks.h"

namespace lesson03 {

/// Two arrays [num_layers, num_blocks, block_size, num_kv_heads, head_dim] in
/// activation_dtype(device). A block id means the same block in every layer.
class PagedKvCache {
 public:
  /// Allocates everything at once: throws DeviceError if the memory cannot be had. num_blocks and
  /// block_size are at least 1. With `guard_rows` it is a debug pool: so many rows of all bits set,
  /// which is NaN, lie before, between and after the blocks. What reads one gives NaN; what writes
  /// one is found by looking at them afterwards.
  PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
               int block_size, int guard_rows = 0);

  int num_blocks() const { return first_layer_.num_blocks; }
  int block_size() const { return first_layer_.block_size; }
  int num_layers() const { return num_layers_; }
  int guard_rows() const { return first_layer_.block_stride - first_layer_.block_size; }

  /// One layer as kernels see it. The pointers stay valid as long as this object lives.
  KvBlocks layer(int layer);
  /// K and V of one block in one layer: [block_size, num_kv_heads, head_dim] each, on the device.
  struct Block {
    void* k;
    void* v;
  };
  Block block(int layer, int32_t block_id);
  /// Sets every byte of K and V, but no guard, in order with the stream's other work. A new cache
  /// holds anything.
  void fill(int byte, const kv::Stream& stream);

  int64_t bytes_per_token() const { return 2 * num_layers_ * row_bytes_; }  // K and V, all layers
  int64_t bytes_per_block() const { return bytes_per_token() * block_size(); }
  int64_t bytes_reserved() const { return bytes_per_block() * num_blocks(); }

 private:
  int num_layers_;
  int64_t row_bytes_;  // K or V of one token in one layer
  KvBlocks first_layer_;

  // [guard_rows], then [num_layers, num_blocks] of [block_size + guard_rows, num_kv_heads,
  // head_dim]: the last guard_rows of a block are the guards before the next one.
  kv::DeviceBuffer k_;
  kv::DeviceBuffer v_;
};

}  // namespace lesson03
