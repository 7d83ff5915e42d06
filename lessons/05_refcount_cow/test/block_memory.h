#pragma once

// Blocks of any sizes on a device, and all their bytes: what code over regions is tested with.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lessons/05_refcount_cow/block_regions.h"

namespace lesson05_test {

using Bytes = std::vector<uint8_t>;

/// Bytes of a block's K, its V and its scales, in one layer: as FP8 has them (lesson 14).
inline std::vector<int64_t> with_scales(int kv_heads, int head_dim, int block_size) {
  const int64_t rows = int64_t{block_size} * kv_heads * head_dim;
  return {rows, rows, (2 * kv_heads * block_size + 15) / 16 * 16};
}
/// The same in the activation dtype, which has no scales.
inline std::vector<int64_t> k_and_v(int kv_heads, int head_dim, int block_size, kv::Device device) {
  const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(device)));
  const int64_t rows = int64_t{block_size} * kv_heads * head_dim * element;
  return {rows, rows};
}

/// Memory of blocks that have regions of these sizes in every layer. In a single layer, blocks
/// before `first` may have none: then a test of places that no int holds needs little.
class BlockMemory {
 public:
  BlockMemory(int num_layers, int num_blocks, const std::vector<int64_t>& bytes,
              const kv::Stream& stream, int block_size = 1, int64_t first = 0)
      : regions(make(num_layers, num_blocks, block_size, bytes, stream, first)) {}

 private:
  lesson05::BlockRegions make(int num_layers, int num_blocks, int block_size,
                              const std::vector<int64_t>& sizes, const kv::Stream& stream,
                              int64_t first) {
    std::vector<lesson05::BlockRegions::Array> arrays;
    for (const int64_t bytes : sizes) {
      arrays_.emplace_back(stream.device(), num_layers * (num_blocks - first) * bytes);
      arrays.push_back({arrays_.back().as<char>() - first * bytes, bytes});
    }
    return {num_layers, num_blocks, block_size, arrays, stream};
  }
  std::vector<kv::DeviceBuffer> arrays_;

 public:
  lesson05::BlockRegions regions;
};

/// A block's bytes from all regions, back to back.
inline Bytes read_block(const lesson05::BlockRegions& regions, int32_t id,
                        const kv::Stream& stream) {
  Bytes bytes(regions.bytes_per_block());
  for (const lesson05::Region& region : regions.list()) {
    kv::copy_to_host(bytes.data() + region.begin, region.block(id), region.bytes, stream);
  }
  return bytes;
}
inline void write_block(const lesson05::BlockRegions& regions, int32_t id, const Bytes& bytes,
                        const kv::Stream& stream) {
  for (const lesson05::Region& region : regions.list()) {
    kv::copy_to_device(region.block(id), bytes.data() + region.begin, region.bytes, stream);
  }
}

/// The bytes of all blocks, by id.
using Contents = std::vector<Bytes>;
inline Contents contents(const lesson05::BlockRegions& regions, const kv::Stream& stream) {
  Contents all;
  for (int32_t id = 0; id < regions.num_blocks(); ++id) {
    all.push_back(read_block(regions, id, stream));
  }
  return all;
}
inline Bytes random_bytes(std::mt19937_64& rng, size_t n) {
  Bytes bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  return bytes;
}
inline Contents fill_randomly(const lesson05::BlockRegions& regions, const kv::Stream& stream) {
  std::mt19937_64 rng(5);
  for (int32_t id = 0; id < regions.num_blocks(); ++id) {
    write_block(regions, id, random_bytes(rng, regions.bytes_per_block()), stream);
  }
  return contents(regions, stream);
}

/// The first byte of a block that is not as wanted; "" if there is none.
inline std::string difference(const lesson05::BlockRegions& regions, const Bytes& found,
                              const Bytes& wanted) {
  const auto at = static_cast<int>(std::ranges::mismatch(found, wanted).in1 - found.begin());
  if (at == std::ssize(found)) return "";
  size_t region = 0;
  while (at >= regions.list()[region].begin + regions.list()[region].bytes) ++region;
  return fmt::format("region {}, byte {}: found {}, wanted {}", region,
                     at - regions.list()[region].begin, found[at], wanted[at]);
}
inline std::string difference(const lesson05::BlockRegions& regions, const Contents& wanted,
                              const kv::Stream& stream) {
  const Contents found = contents(regions, stream);
  for (size_t id = 0; id < wanted.size(); ++id) {
    const std::string what = difference(regions, found[id], wanted[id]);
    if (!what.empty()) return fmt::format("block {}, {}", id, what);
  }
  return "";
}

}  // namespace lesson05_test
