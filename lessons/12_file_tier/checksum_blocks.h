#pragma once

// The checksum of a block, all its bytes. It is taken where the block is computed, and
// again wherever it is copied. Changing any one word of eight bytes changes the checksum; a change
// of more words is missed once in 2^64.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/device.h"
#include "common/host_device.h"
#include "lessons/11_host_tier/host_blocks.h"
#include "lessons/11_host_tier/transfers.h"

namespace lesson12 {

using lesson11::BlockMove;
using lesson11::BlockRegions;
using lesson11::HostBlocks;
using lesson11::PagedKvCache;

/// The number that word `index` of a block adds to its checksum. The checksum is the sum of these
/// numbers modulo 2^64, so the words may be added in any order, by any number of threads.
KV_HOST_DEVICE inline uint64_t mixed(uint64_t word, uint64_t index) {
  uint64_t z = word ^ (index + 1) * 0x9E3779B97F4A7C15;  // the same word elsewhere adds another
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;                // each step can be undone (splitmix64), so
  z = (z ^ z >> 27) * 0x94D049BB133111EB;                // two words never add the same
  return z ^ z >> 31;
}

/// The checksum of a block's bytes as they lie in the host's memory and in a record: layer 0's K,
/// its V, layer 1's K, and so on. Throws std::invalid_argument unless they are
/// whole words.
uint64_t checksum_of(std::span<const std::byte> block);

struct ChecksumBlocksArgs {
  const BlockRegions* regions = nullptr;
  /// Blocks of the device, and the blocks of the host that they are copied to or from. On the host;
  /// may be reused as soon as the call returns.
  std::span<const BlockMove> blocks;
  uint64_t* checksums = nullptr;  // [host ids] the checksum of block `device` goes to place `host`
};

/// Throws std::out_of_range for a block that the regions do not have. Throws std::invalid_argument
/// if a block is not whole words in each region.
void check_blocks(const ChecksumBlocksArgs& args);

/// Both call check_blocks() first, and give checksum_of() of the block's bytes in the host's order.
void checksum_blocks_cpu(const ChecksumBlocksArgs& args);
void checksum_blocks_cuda(const ChecksumBlocksArgs& args, const kv::Stream& stream);
inline void checksum_blocks(const ChecksumBlocksArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(checksum_blocks, args, stream);
}

}  // namespace lesson12
