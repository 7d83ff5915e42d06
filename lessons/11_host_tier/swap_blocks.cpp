#include "swap_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <unordered_set>

namespace lesson11 {

void check_moves(const SwapBlocksArgs& args) {
  const auto check_id = [](const char* pool, int32_t id, int num_ids) {
    if (id >= 0 && id < num_ids) return;
    throw std::out_of_range(
        fmt::format("swap_blocks: there is no {} block {}, the ids end at {}", pool, id, num_ids));
  };
  std::unordered_set<int32_t> destinations;
  for (const BlockMove& move : args.moves) {
    check_id("device", move.device, args.regions->num_blocks());
    check_id("host", move.host, args.host->num_ids());
    const int32_t destination = args.direction == Direction::kOffload ? move.host : move.device;
    if (!destinations.insert(destination).second) {
      throw std::invalid_argument(
          fmt::format("swap_blocks: {} block {} is named again, and is copied to",
                      args.direction == Direction::kOffload ? "host" : "device", destination));
    }
  }
}

void swap_blocks_cpu(const SwapBlocksArgs& args) {
  check_moves(args);
  for (const BlockMove& move : args.moves) {
    for (const lesson05::Region& region : args.regions->list()) {
      std::byte* const on_device = region.block(move.device);
      std::byte* const in_host = args.host->block(move.host).data() + region.begin;
      if (args.direction == Direction::kOffload) {
        std::memcpy(in_host, on_device, region.bytes);
      } else {
        std::memcpy(on_device, in_host, region.bytes);
      }
    }
  }
}

}  // namespace lesson11
