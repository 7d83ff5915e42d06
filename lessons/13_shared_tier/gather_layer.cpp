#include "gather_layer.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace lesson13 {

void check_gather(const GatherLayerArgs& args) {
  const auto check = [](const char* what, int found, int end) {
    if (found >= 0 && found < end) return;
    throw std::out_of_range(
        fmt::format("gather_layer: there is no {} {}, they end at {}", what, found, end));
  };
  check("layer", args.layer, args.cache->num_layers());
  for (const BlockMove& move : args.moves) {
    check("device block", move.device, args.cache->num_blocks());
    check("host block", move.host, args.host->num_ids());
  }
}

void gather_layer_cpu(const GatherLayerArgs& args) {
  check_gather(args);
  const lesson03::KvBlocks blocks = args.cache->layer(args.layer);
  for (const BlockMove& move : args.moves) {
    std::byte* const in_host =
        args.host->block(move.host).data() + int64_t{args.layer} * blocks.block_bytes();
    for (int i = 0; i < blocks.num_pieces(); ++i) {
      const lesson03::Piece piece = blocks.piece(move.device, i);
      std::memcpy(in_host + piece.begin, piece.data, static_cast<size_t>(piece.bytes));
    }
  }
}

}  // namespace lesson13
