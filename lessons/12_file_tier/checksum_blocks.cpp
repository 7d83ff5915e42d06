#include "checksum_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace lesson12 {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

/// The sum over bytes whose first word is word `first` of the block.
uint64_t sum_of(const std::byte* bytes, size_t num_words, uint64_t first) {
  uint64_t sum = 0;
  for (size_t i = 0; i < num_words; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
    sum += mixed(word, first + i);
  }
  return sum;
}

}  // namespace

uint64_t checksum_of(std::span<const std::byte> block) {
  if (block.size() % kWordBytes != 0) {
    throw std::invalid_argument(
        fmt::format("checksum_of: found {} bytes, wanted words of {}", block.size(), kWordBytes));
  }
  return sum_of(block.data(), block.size() / kWordBytes, 0);
}

void check_blocks(const ChecksumBlocksArgs& args) {
  for (const auto [id, host] : args.blocks) {
    if (id >= 0 && id < args.regions->num_blocks()) continue;
    throw std::out_of_range(fmt::format("checksum_blocks: there is no block {}, the ids end at {}",
                                        id, args.regions->num_blocks()));
  }
  for (const lesson05::Region& region : args.regions->list()) {
    if (region.bytes % kWordBytes == 0) continue;
    throw std::invalid_argument(
        fmt::format("checksum_blocks: a block has {} bytes in a region, wanted words of {}",
                    region.bytes, kWordBytes));
  }
}

void checksum_blocks_cpu(const ChecksumBlocksArgs& args) {
  check_blocks(args);
  for (const auto [id, host] : args.blocks) {
    uint64_t sum = 0;
    for (const lesson05::Region& region : args.regions->list()) {
      sum += sum_of(region.block(id), region.count<uint64_t>(), region.begin / kWordBytes);
    }
    args.checksums[host] = sum;
  }
}

}  // namespace lesson12
