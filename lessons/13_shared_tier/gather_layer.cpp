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
  check("layer", args.layer, args.regions->num_layers());
  for (const BlockMove& move : args.moves) {
    check("device block", move.device, args.regions->num_blocks());
    check("host block", move.host, args.host->num_ids());
  }
}

void gather_layer_cpu(const GatherLayerArgs& args) {
  check_gather(args);
  for (const BlockMove& move : args.moves) {
    std::byte* const in_host = args.host->block(move.host).data();
    for (const lesson05::Region& region : args.regions->layer(args.layer)) {
      std::memcpy(in_host + region.begin, region.block(move.device), region.bytes);
    }
  }
}

}  // namespace lesson13
