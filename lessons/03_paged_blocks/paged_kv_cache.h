#pragma once

// K and V of all layers in blocks. The manager knows which sequence holds which block.

#include <cstdint>

#include "common/device.h"
#include "kv_blocks.h"
#include "qwen3/config.h"

namespace lesson03 {

/// Two arrays [num_layers, num_blocks, block_size, num_kv_heads, head_dim] in
/// activation_dtype(device); or in FP8, with a third array for the scales (KvBlocks). A block id
/// means the same block in every layer.
class PagedKvCache {
 public:
  /// Throws DeviceError if the memory cannot be allocated. num_blocks and block_size are at least
  /// 1. With guard_rows > 0 it is a debug pool: guard_rows rows of NaN (all bits set) lie before,
  /// between and after the blocks. They reveal a kernel that reads or writes beside a block.
  PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
               int block_size, int guard_rows = 0, kv::KvFormat format = kv::KvFormat::kActivations)
      : num_layers_(config.num_layers) {
    const bool fp8 = format == kv::KvFormat::kFp8;
    const size_t element_bytes = fp8 ? 1 : size_of(kv::activation_dtype(stream.device()));
    const int64_t row_bytes = config.kv_width() * static_cast<int64_t>(element_bytes);
    const int stride = block_size + guard_rows;
    const int64_t rows = guard_rows + int64_t{num_layers_} * num_blocks * stride;
    for (kv::DeviceBuffer* buffer : {&k_, &v_}) {
      *buffer = kv::DeviceBuffer(stream.device(), static_cast<size_t>(rows * row_bytes));
      if (guard_rows > 0) kv::fill_bytes(buffer->data(), 0xFF, buffer->bytes(), stream);
    }
    first_layer_ = {.k = k_.as<std::byte>() + guard_rows * row_bytes,
                    .v = v_.as<std::byte>() + guard_rows * row_bytes,
                    .num_blocks = num_blocks,
                    .block_size = block_size,
                    .block_stride = stride,
                    .num_kv_heads = config.num_kv_heads,
                    .head_dim = config.head_dim,
                    .element_bytes = static_cast<int>(element_bytes)};
    if (!fp8) return;
    scales_ = kv::DeviceBuffer(
        stream.device(),
        static_cast<size_t>(int64_t{num_layers_} * num_blocks * first_layer_.scale_stride()));
    kv::fill_bytes(scales_.data(), 0, scales_.bytes(), stream);  // their padding, too
    first_layer_.scales = scales_.as<uint8_t>();
  }

  int num_blocks() const { return first_layer_.num_blocks; }
  int block_size() const { return first_layer_.block_size; }
  int num_layers() const { return num_layers_; }

  /// One layer as kernels see it. The pointers stay valid as long as this object lives.
  KvBlocks layer(int layer) {
    const int64_t first = int64_t{layer} * num_blocks();  // its block 0, counted from layer 0
    KvBlocks blocks = first_layer_;
    blocks.k = first_layer_.piece(first, 0).data;
    blocks.v = first_layer_.piece(first, 1).data;
    if (blocks.scales != nullptr) blocks.scales = first_layer_.piece(first, 2).as<uint8_t>();
    return blocks;
  }

  /// K and V with their scales, all layers.
  int64_t bytes_per_token() const { return bytes_per_block() / block_size(); }
  int64_t bytes_per_block() const { return int64_t{num_layers_} * first_layer_.block_bytes(); }
  int64_t bytes_reserved() const { return bytes_per_block() * num_blocks(); }

 private:
  int num_layers_;
  KvBlocks first_layer_;

  // [guard_rows], then [num_layers, num_blocks] of [block_size + guard_rows, num_kv_heads,
  // head_dim]: the last guard_rows of a block are the guards before the next one.
  kv::DeviceBuffer k_, v_;
  kv::DeviceBuffer scales_;  // in FP8: [num_layers, num_blocks, scale_stride()]
};

}  // namespace lesson03
