#pragma once

// K and V of all layers in blocks. The manager knows which sequence holds which block.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "kv_blocks.h"
#include "qwen3/config.h"

namespace lesson03 {

/// K and V are two arrays [num_layers, num_blocks, block_size, num_kv_heads, head_dim] in
/// activation_dtype(device). A block id means the same block in every layer.
class PagedKvCache {
 public:
  /// Throws DeviceError if the memory cannot be allocated. Both numbers are at least 1.
  PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
               int block_size)
      : bytes_per_token_(
            config.kv_bytes_per_token(size_of(kv::activation_dtype(stream.device())))) {
    const int64_t bytes = bytes_per_token_ * block_size * num_blocks / 2;  // of K, and of V
    k_ = kv::DeviceBuffer(stream.device(), bytes);
    v_ = kv::DeviceBuffer(stream.device(), bytes);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      layers_.push_back({.k = k_.as<std::byte>() + layer * bytes / config.num_layers,
                         .v = v_.as<std::byte>() + layer * bytes / config.num_layers,
                         .num_blocks = num_blocks,
                         .block_size = block_size,
                         .num_kv_heads = config.num_kv_heads,
                         .head_dim = config.head_dim});
    }
  }

  int num_blocks() const { return layers_[0].num_blocks; }
  int block_size() const { return layers_[0].block_size; }
  int num_layers() const { return static_cast<int>(layers_.size()); }

  /// Each layer as kernels see it. The pointers stay valid as long as this object lives.
  std::span<const KvBlocks> layers() const { return layers_; }
  const KvBlocks& layer(int layer) const { return layers_.at(layer); }

  /// K and V, all layers.
  int64_t bytes_per_token() const { return bytes_per_token_; }
  int64_t bytes_per_block() const { return bytes_per_token_ * block_size(); }
  int64_t bytes_reserved() const { return bytes_per_block() * num_blocks(); }

 private:
  int64_t bytes_per_token_;
  kv::DeviceBuffer k_, v_;
  std::vector<KvBlocks> layers_;
};

/// Sets every byte of every block. Those of a new cache are undefined.
inline void fill_blocks(PagedKvCache& cache, int byte, const kv::Stream& stream) {
  const KvBlocks& first = cache.layer(0);
  for (void* const blocks : {first.k, first.v}) {
    kv::fill_bytes(blocks, byte, cache.bytes_reserved() / 2, stream);
  }
}

}  // namespace lesson03
