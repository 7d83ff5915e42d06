#include "paged_kv_cache.h"

namespace lesson03 {

PagedKvCache::PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
                           int block_size, int guard_rows)
    : num_layers_(config.num_layers),
      row_bytes_(static_cast<int64_t>(size_of(kv::activation_dtype(stream.device()))) *
                 config.num_kv_heads * config.head_dim) {
  const int stride = block_size + guard_rows;
  const int64_t rows = guard_rows + int64_t{num_layers_} * num_blocks * stride;
  for (kv::DeviceBuffer* buffer : {&k_, &v_}) {
    *buffer = kv::DeviceBuffer(stream.device(), static_cast<size_t>(rows * row_bytes_));
    if (guard_rows > 0) kv::fill_bytes(buffer->data(), 0xFF, buffer->bytes(), stream);
  }
  first_layer_ = {.k = k_.as<std::byte>() + guard_rows * row_bytes_,
                  .v = v_.as<std::byte>() + guard_rows * row_bytes_,
                  .num_blocks = num_blocks,
                  .block_size = block_size,
                  .block_stride = stride,
                  .num_kv_heads = config.num_kv_heads,
                  .head_dim = config.head_dim};
}

KvBlocks PagedKvCache::layer(int layer) {
  KvBlocks blocks = first_layer_;
  blocks.k = block(layer, 0).k;
  blocks.v = block(layer, 0).v;
  return blocks;
}

PagedKvCache::Block PagedKvCache::block(int layer, int32_t block_id) {
  const int64_t index = int64_t{layer} * num_blocks() + block_id;
  const int64_t at = index * first_layer_.block_stride * row_bytes_;
  return {static_cast<std::byte*>(first_layer_.k) + at,
          static_cast<std::byte*>(first_layer_.v) + at};
}

void PagedKvCache::fill(int byte, const kv::Stream& stream) {
  // Without guards all blocks of a layer are one piece.
  const int pieces = guard_rows() > 0 ? num_blocks() : 1;
  const auto bytes =
      static_cast<size_t>(int64_t{num_blocks() / pieces} * block_size() * row_bytes_);
  for (int layer = 0; layer < num_layers_; ++layer) {
    for (int32_t id = 0; id < pieces; ++id) {
      kv::fill_bytes(block(layer, id).k, byte, bytes, stream);
      kv::fill_bytes(block(layer, id).v, byte, bytes, stream);
    }
  }
}

}  // namespace lesson03
