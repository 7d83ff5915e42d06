#pragma once

// A paged cache as a list of regions of memory: for code that copies, compares or fills whole
// blocks, and does not have to know what their bytes mean.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "common/host_device.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"

namespace lesson05 {

/// K of one layer, or V: the first block's bytes, then the second's, and so on.
struct Region {
  std::byte* base;
  int bytes;  // of a block
  int begin;  // their offset where the bytes of a block from all regions are stored back to back

  /// Where the region has a block; words of type T fit into it this many times.
  template <class T = std::byte>
  KV_HOST_DEVICE T* block(int64_t id) const {
    return reinterpret_cast<T*>(base + id * bytes);
  }
  template <class T>
  KV_HOST_DEVICE int count() const {
    return bytes / static_cast<int>(sizeof(T));
  }
};

/// The regions [num_layers][K, V] of a cache. Borrows its memory.
class BlockRegions {
 public:
  /// What a cache has in every layer: [num_layers, num_blocks, bytes].
  struct Array {
    void* base;
    int64_t bytes;  // of a block in one layer
  };
  BlockRegions(int num_layers, int num_blocks, int block_size, std::span<const Array> arrays,
               const kv::Stream& stream)
      : num_layers_(num_layers), num_blocks_(num_blocks), block_size_(block_size) {
    int64_t begin = 0;
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      for (const auto& [base, bytes] : arrays) {
        list_.push_back({.base = static_cast<std::byte*>(base) + layer * num_blocks * bytes,
                         .bytes = static_cast<int>(bytes),
                         .begin = static_cast<int>(begin)});
        begin += bytes;
      }
    }
    on_device_ = kv::to_device<Region>(list_, stream);
  }

  int num_layers() const { return num_layers_; }
  int num_blocks() const { return num_blocks_; }
  int block_size() const { return block_size_; }
  std::span<const Region> list() const { return list_; }
  std::span<const Region> layer(int layer) const {
    const size_t in_layer = list_.size() / num_layers_;
    return std::span(list_).subspan(layer * in_layer, in_layer);
  }
  /// The same list for kernels.
  const Region* on_device() const { return on_device_.as<const Region>(); }
  int64_t bytes_per_block() const { return list_.back().begin + list_.back().bytes; }

 private:
  int num_layers_, num_blocks_, block_size_;
  std::vector<Region> list_;
  kv::DeviceBuffer on_device_;
};

inline BlockRegions regions_of(const lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  const lesson03::KvBlocks& first = cache.layer(0);
  const int64_t bytes = cache.bytes_per_block() / (2 * cache.num_layers());
  const BlockRegions::Array k_and_v[] = {{first.k, bytes}, {first.v, bytes}};
  return {cache.num_layers(), cache.num_blocks(), cache.block_size(), k_and_v, stream};
}

}  // namespace lesson05
