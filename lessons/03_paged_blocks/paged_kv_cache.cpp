#include "paged_kv_cache.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson03 {

PagedKvCache::PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
                           int block_size, int guard_rows)
    : num_layers_(config.num_layers),
      num_blocks_(num_blocks),
      block_size_(block_size),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      guard_rows_(guard_rows) {
  if (num_blocks < 1 || block_size < 1) {
    throw std::invalid_argument(fmt::format(
        "PagedKvCache: {} blocks of {} tokens, wanted at least 1 of 1", num_blocks, block_size));
  }
  const auto element_bytes = static_cast<int64_t>(size_of(kv::activation_dtype(stream.device())));
  bytes_per_token_ = config.kv_bytes_per_token(element_bytes);
  row_bytes_ = int64_t{num_kv_heads_} * head_dim_ * element_bytes;
  block_bytes_ = block_size * row_bytes_;
  const int64_t blocks = int64_t{num_layers_} * num_blocks;
  const int64_t rows = guard_rows + blocks * (int64_t{block_size} + guard_rows);
  for (kv::DeviceBuffer* buffer : {&k_, &v_}) {
    *buffer = kv::DeviceBuffer(stream.device(), static_cast<size_t>(rows * row_bytes_));
    if (guard_rows > 0) kv::fill_bytes(buffer->data(), 0xFF, buffer->bytes(), stream);
  }
}

KvBlocks PagedKvCache::layer(int layer) {
  const Block first = block(layer, 0);
  return {.k = first.k,
          .v = first.v,
          .num_blocks = num_blocks_,
          .block_size = block_size_,
          .block_stride = block_size_ + guard_rows_,
          .num_kv_heads = num_kv_heads_,
          .head_dim = head_dim_};
}

void PagedKvCache::fill(int byte, const kv::Stream& stream) {
  if (guard_rows_ == 0) {
    kv::fill_bytes(k_.data(), byte, k_.bytes(), stream);
    kv::fill_bytes(v_.data(), byte, v_.bytes(), stream);
    return;
  }
  for (int layer = 0; layer < num_layers_; ++layer) {
    for (int32_t id = 0; id < num_blocks_; ++id) {
      kv::fill_bytes(block(layer, id).k, byte, static_cast<size_t>(block_bytes_), stream);
      kv::fill_bytes(block(layer, id).v, byte, static_cast<size_t>(block_bytes_), stream);
    }
  }
}

PagedKvCache::Block PagedKvCache::block(int layer, int32_t block_id) {
  const int64_t index = int64_t{layer} * num_blocks_ + block_id;
  const int64_t row = guard_rows_ + index * (int64_t{block_size_} + guard_rows_);
  return {k_.as<std::byte>() + row * row_bytes_, v_.as<std::byte>() + row * row_bytes_};
}

}  // namespace lesson03
