#include "paged_kv_cache.h"

#include <fmt/format.h>

#include <span>
#include <stdexcept>

namespace lesson03 {
namespace {

/// Allocates every block by itself; returns their addresses in device memory.
kv::DeviceBuffer allocate_each(std::vector<kv::DeviceBuffer>& blocks, size_t count, size_t bytes,
                               const kv::Stream& stream) {
  std::vector<void*> addresses;
  for (size_t i = 0; i < count; ++i) {
    blocks.emplace_back(stream.device(), bytes);
    addresses.push_back(blocks.back().data());
  }
  return kv::to_device<void*>(addresses, stream);
}

}  // namespace

PagedKvCache::PagedKvCache(const kv::ModelConfig& config, const kv::Stream& stream, int num_blocks,
                           int block_size, bool separate_blocks)
    : num_layers_(config.num_layers),
      num_blocks_(num_blocks),
      block_size_(block_size),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim) {
  if (num_blocks < 1 || block_size < 1) {
    throw std::invalid_argument(fmt::format(
        "PagedKvCache: {} blocks of {} tokens, wanted at least 1 of 1", num_blocks, block_size));
  }
  const auto element_bytes = static_cast<int64_t>(size_of(kv::activation_dtype(stream.device())));
  bytes_per_token_ = config.kv_bytes_per_token(element_bytes);
  block_bytes_ = int64_t{block_size} * num_kv_heads_ * head_dim_ * element_bytes;
  const auto blocks = static_cast<size_t>(int64_t{num_layers_} * num_blocks);
  const auto bytes = static_cast<size_t>(block_bytes_);
  if (separate_blocks) {
    k_addresses_ = allocate_each(k_blocks_, blocks, bytes, stream);
    v_addresses_ = allocate_each(v_blocks_, blocks, bytes, stream);
  } else {
    k_ = kv::DeviceBuffer(stream.device(), blocks * bytes);
    v_ = kv::DeviceBuffer(stream.device(), blocks * bytes);
  }
}

KvBlocks PagedKvCache::layer(int layer) const {
  KvBlocks blocks{.num_blocks = num_blocks_,
                  .block_size = block_size_,
                  .num_kv_heads = num_kv_heads_,
                  .head_dim = head_dim_};
  const int64_t first = int64_t{layer} * num_blocks_;
  if (!k_blocks_.empty()) {
    blocks.k_block = k_addresses_.as<void* const>() + first;
    blocks.v_block = v_addresses_.as<void* const>() + first;
  } else {
    blocks.k = k_.as<std::byte>() + first * block_bytes_;
    blocks.v = v_.as<std::byte>() + first * block_bytes_;
  }
  return blocks;
}

void PagedKvCache::fill(int byte, const kv::Stream& stream) const {
  const auto fill = [&](const kv::DeviceBuffer& buffer) {
    if (buffer.bytes() > 0) kv::fill_bytes(buffer.data(), byte, buffer.bytes(), stream);
  };
  fill(k_);
  fill(v_);
  for (const kv::DeviceBuffer& buffer : k_blocks_) fill(buffer);
  for (const kv::DeviceBuffer& buffer : v_blocks_) fill(buffer);
}

PagedKvCache::Block PagedKvCache::block(int layer, int32_t block_id) const {
  const int64_t index = int64_t{layer} * num_blocks_ + block_id;
  if (!k_blocks_.empty()) {
    return {k_blocks_[static_cast<size_t>(index)].data(),
            v_blocks_[static_cast<size_t>(index)].data()};
  }
  return {k_.as<std::byte>() + index * block_bytes_, v_.as<std::byte>() + index * block_bytes_};
}

}  // namespace lesson03
