#pragma once

// Blocks whose tokens hold numbers, for random tests without a model: all bytes that a token has.

#include <cstddef>
#include <cstdint>

#include "lessons/05_refcount_cow/test/block_memory.h"
#include "tests/support/shortened.h"

namespace lesson11_test {

/// Bytes of a block in the regions of a layer: rows of 8 bytes, and perhaps scales (lesson 14).
inline std::vector<int64_t> sizes_of(int block_size, bool scales) {
  std::vector<int64_t> bytes{8 * block_size, 8 * block_size};
  if (scales) bytes.push_back(16 * block_size);
  return bytes;
}

/// Calls f(byte) for each byte of a token in all regions.
template <class F>
void for_each_byte(const lesson05::BlockRegions& regions, int32_t block_id, int offset, F f) {
  for (const lesson05::Region& region : regions.list()) {
    const int width = region.bytes / regions.block_size();  // bytes of a token
    std::byte* const token = region.block(block_id) + offset * width;
    for (int i = 0; i < width; ++i) f(token[i]);
  }
}

/// Writes a number into a token, or compares it with what the token holds.
inline void visit(const lesson05::BlockRegions& regions, int32_t block_id, int offset,
                  int64_t number, bool writes) {
  uint64_t mixed = static_cast<uint64_t>(number);
  for_each_byte(regions, block_id, offset, [&](std::byte& byte) {
    mixed = mixed * 0x9E3779B97F4A7C15 + 1;  // each byte of the token holds another one
    const auto wanted = static_cast<std::byte>(mixed >> 56);
    if (writes) byte = wanted;
    kvtest::require(byte == wanted, "a request reads what is not its own");
  });
}

/// The first byte of a block in one of the regions of layer 1.
inline std::byte& first_byte(const lesson05::BlockRegions& regions, int32_t block_id,
                             size_t random) {
  const auto layer = regions.layer(1);
  return *layer[random % layer.size()].block(block_id);
}

}  // namespace lesson11_test
