#pragma once

// K and V of all layers in FP8. Lesson 03's blocks hold codes, and a third array their scales.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "common/host_device.h"
#include "lessons/03_paged_blocks/kv_blocks.h"
#include "lessons/05_refcount_cow/block_regions.h"
#include "qwen3/config.h"

namespace lesson14 {

using lesson03::KvBlocks;

/// One layer. An element of `k` and `v` is a code, one byte.
struct Fp8Blocks : KvBlocks {
  /// [num_blocks] of [num_kv_heads][K, V][block_size]: one scale per head and row, a byte each.
  uint8_t* scales = nullptr;

  /// Bytes from one block's scales to the next block's, rounded up to a multiple of 16.
  KV_HOST_DEVICE int scale_stride() const { return (2 * num_kv_heads * block_size + 15) / 16 * 16; }
};

/// A block id means the same block in every layer.
class Fp8KvCache {
 public:
  /// As lesson 03's PagedKvCache.
  Fp8KvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
             int block_size)
      : regions_(make_regions({{.num_blocks = num_blocks,
                                .block_size = block_size,
                                .num_kv_heads = config.num_kv_heads,
                                .head_dim = config.head_dim}},
                              config.num_layers, stream)) {}

  int num_blocks() const { return regions_.num_blocks(); }
  int block_size() const { return regions_.block_size(); }
  int num_layers() const { return regions_.num_layers(); }
  std::span<const KvBlocks> codes() const { return codes_; }  // of each layer
  Fp8Blocks layer(int layer) const {
    return {codes_.at(layer), regions_.layer(layer)[2].block<uint8_t>(0)};
  }
  /// [num_layers][K, V, scales]
  const lesson05::BlockRegions& regions() const { return regions_; }

  /// K and V with their scales, all layers.
  int64_t bytes_per_token() const { return bytes_per_block() / block_size(); }
  int64_t bytes_per_block() const { return regions_.bytes_per_block(); }
  int64_t bytes_reserved() const { return bytes_per_block() * num_blocks(); }

 private:
  lesson05::BlockRegions make_regions(Fp8Blocks shape, int num_layers, const kv::Stream& stream) {
    const int64_t codes = int64_t{shape.block_size} * shape.row_width();
    std::vector<lesson05::BlockRegions::Array> arrays;
    for (const int64_t bytes : {codes, codes, int64_t{shape.scale_stride()}}) {
      memory_.emplace_back(stream.device(), num_layers * shape.num_blocks * bytes);
      arrays.push_back({memory_.back().data(), bytes});
    }
    kv::fill_bytes(memory_[2].data(), 0, memory_[2].bytes(), stream);  // the padding of scales, too
    lesson05::BlockRegions regions(num_layers, shape.num_blocks, shape.block_size, arrays, stream);
    for (int layer = 0; layer < num_layers; ++layer) {
      shape.k = regions.layer(layer)[0].base;
      shape.v = regions.layer(layer)[1].base;
      codes_.push_back(shape);
    }
    return regions;
  }

  std::vector<kv::DeviceBuffer> memory_;  // of K, V and the scales
  std::vector<KvBlocks> codes_;
  lesson05::BlockRegions regions_;  // last: what makes it fills the two above
};

}  // namespace lesson14
