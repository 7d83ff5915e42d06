// The CUDA twin of gather_layer. It writes pinned memory of the host directly: 64 KiB for a block
// of 16 tokens of Qwen3-0.6B in one layer. A prefill of 2,048 tokens sends 8 MiB in each layer, a
// seventh of a millisecond on PCIe 5.0, while the SMs compute the layer after it.

#include "gather_layer.h"

#include <algorithm>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson13 {
namespace {

// Few: the bus is the limit, and the SMs are the pass's.
constexpr int kCtas = 4;
constexpr int kThreadsPerCta = 512;
constexpr size_t kMovesPerLaunch = 256;  // they travel with the launch, which may carry 4 KiB
struct Moves {
  BlockMove move[kMovesPerLaunch];
};

/// A piece is K or V of one block in the layer. `host` is [num_ids][num_layers][K, V][piece_words].
/// Grid: kCtas; each takes every gridDim.x-th piece.
__global__ void gather_layer_kernel(lesson03::KvBlocks cache, kv::Word* host, Moves moves,
                                    int num_moves, int layer, int num_layers, int piece_words) {
  for (auto piece = static_cast<int>(blockIdx.x); piece < 2 * num_moves;
       piece += static_cast<int>(gridDim.x)) {
    const auto [device_id, host_id] = moves.move[piece / 2];
    const auto* const from = reinterpret_cast<const kv::Word*>(
        piece % 2 == 0 ? lesson03::k_row<uint16_t>(cache, device_id, 0)
                       : lesson03::v_row<uint16_t>(cache, device_id, 0));
    kv::Word* const to =
        host + ((int64_t{host_id} * num_layers + layer) * 2 + piece % 2) * piece_words;
    for (auto at = static_cast<int>(threadIdx.x); at < piece_words; at += kThreadsPerCta) {
      to[at] = from[at];
    }
  }
}

}  // namespace

void gather_layer_cuda(const GatherLayerArgs& args, const kv::Stream& stream) {
  check_gather(args);
  const lesson03::KvBlocks layer = args.cache->layer(args.layer);
  const int piece_words = kv::words_of(layer.block_size * layer.row_width());
  for (size_t first = 0; first < args.moves.size(); first += kMovesPerLaunch) {
    const auto now =
        args.moves.subspan(first, std::min(kMovesPerLaunch, args.moves.size() - first));
    const auto num_moves = static_cast<int>(now.size());
    Moves moves;
    std::ranges::copy(now, moves.move);
    kv::launch(gather_layer_kernel,
               {dim3(kCtas), dim3(kThreadsPerCta), 0, "launching gather_layer"}, stream, layer,
               reinterpret_cast<kv::Word*>(args.host->data()), moves, num_moves, args.layer,
               args.cache->num_layers(), piece_words);
  }
}

}  // namespace lesson13
