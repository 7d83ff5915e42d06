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
  // K or V of one block in the layer.
  const size_t bytes =
      args.host->bytes_per_block() / static_cast<size_t>(args.cache->num_layers()) / 2;
  for (const BlockMove& move : args.moves) {
    const auto [k, v] = args.cache->block(args.layer, move.device);
    std::byte* const in_host =
        args.host->block(move.host).data() + static_cast<size_t>(args.layer) * 2 * bytes;
    std::memcpy(in_host, k, bytes);
    std::memcpy(in_host + bytes, v, bytes);
  }
}

}  // namespace lesson13
