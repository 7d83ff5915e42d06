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
    check_id("device", move.device, args.cache->num_blocks());
    check_id("host", move.host, args.host->num_ids());
    const int32_t destination = args.way == Way::kOffload ? move.host : move.device;
    if (!destinations.insert(destination).second) {
      throw std::invalid_argument(
          fmt::format("swap_blocks: {} block {} is named again, and is copied to",
                      args.way == Way::kOffload ? "host" : "device", destination));
    }
  }
}

void swap_blocks_cpu(const SwapBlocksArgs& args) {
  check_moves(args);
  PagedKvCache& cache = *args.cache;
  for (const BlockMove& move : args.moves) {
    std::byte* in_host = args.host->block(move.host).data();
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      const lesson03::KvBlocks blocks = cache.layer(layer);
      for (int i = 0; i < blocks.num_pieces(); ++i) {
        const lesson03::Piece on_device = blocks.piece(move.device, i);
        const auto bytes = static_cast<size_t>(on_device.bytes);
        if (args.way == Way::kOffload) {
          std::memcpy(in_host, on_device.data, bytes);
        } else {
          std::memcpy(on_device.data, in_host, bytes);
        }
        in_host += bytes;
      }
    }
  }
}

}  // namespace lesson11
