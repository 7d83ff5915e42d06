// The CUDA twin of swap_blocks. Every byte of a block crosses the bus once. A block of 16 tokens of
// Qwen3-0.6B has 1.75 MiB: 33 us at the 55 GB/s of PCIe 5.0. In the device's cache a block has 56
// pieces, K and V of 28 layers; one launch replaces 56 copies. The launch is small, because more
// CTAs than the bus needs would delay the passes.

#include "swap_blocks.h"

#include <algorithm>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson11 {
namespace {

// The fewest CTAs that keep PCIe 5.0 busy (./course bench 11). With 16 an offload alone is no
// faster, and the reads of a pass beside it take 2.6 times as long.
constexpr int kCtasToOffload = 2, kCtasToLoad = 4;
constexpr int kThreadsPerCta = 512;
constexpr int kWordsInFlight = 4;        // of a thread: the bus is fast, but far away
constexpr size_t kMovesPerLaunch = 256;  // kernel arguments, which may take 4 KiB
struct Moves {
  BlockMove move[kMovesPerLaunch];
};

/// `cache` is layer 0: block b of layer l is block l * num_blocks + b, counted from there.
/// `host` is [num_ids][num_layers][cache.block_bytes()]: a layer's K, its V, and so on.
/// Grid: no more CTAs than the bus needs; each copies every gridDim.x-th piece.
__global__ void swap_blocks_kernel(lesson03::KvBlocks cache, std::byte* host, Way way, Moves moves,
                                   int num_moves, int num_layers) {
  const int pieces_per_layer = cache.num_pieces();
  const int pieces_per_block = num_layers * pieces_per_layer;
  for (auto i = static_cast<int>(blockIdx.x); i < num_moves * pieces_per_block;
       i += static_cast<int>(gridDim.x)) {
    const auto [device_id, host_id] = moves.move[i / pieces_per_block];
    const int layer = i % pieces_per_block / pieces_per_layer;
    const int64_t block = int64_t{layer} * cache.num_blocks + device_id;
    const lesson03::Piece piece = cache.piece(block, i % pieces_per_layer);
    const int64_t in_layer = (int64_t{host_id} * num_layers + layer) * cache.block_bytes();
    auto* const on_device = piece.as<kv::Word>();
    auto* const in_host = reinterpret_cast<kv::Word*>(host + in_layer + piece.begin);
    const int piece_words = piece.count<kv::Word>();
    const kv::Word* const from = way == Way::kOffload ? on_device : in_host;
    kv::Word* const to = way == Way::kOffload ? in_host : on_device;
    for (auto at = static_cast<int>(threadIdx.x); at < piece_words;
         at += kThreadsPerCta * kWordsInFlight) {
      kv::Word words[kWordsInFlight];
#pragma unroll
      for (int w = 0; w < kWordsInFlight; ++w) {
        if (at + w * kThreadsPerCta < piece_words) words[w] = from[at + w * kThreadsPerCta];
      }
#pragma unroll
      for (int w = 0; w < kWordsInFlight; ++w) {
        if (at + w * kThreadsPerCta < piece_words) to[at + w * kThreadsPerCta] = words[w];
      }
    }
  }
}

}  // namespace

void swap_blocks_cuda(const SwapBlocksArgs& args, const kv::Stream& stream) {
  check_moves(args);
  const lesson03::KvBlocks layer = args.cache->layer(0);
  const int num_layers = args.cache->num_layers();
  const int enough = args.way == Way::kOffload ? kCtasToOffload : kCtasToLoad;
  const int max_ctas = args.max_ctas > 0 ? args.max_ctas : enough;
  const int num_pieces = num_layers * layer.num_pieces();  // of a block
  kv::check_words(layer.piece(0, 0).bytes);
  for (size_t first = 0; first < args.moves.size(); first += kMovesPerLaunch) {
    const auto now =
        args.moves.subspan(first, std::min(kMovesPerLaunch, args.moves.size() - first));
    const auto num_moves = static_cast<int>(now.size());
    Moves moves;
    std::ranges::copy(now, moves.move);
    const auto ctas = static_cast<unsigned>(std::min(max_ctas, num_moves * num_pieces));
    kv::launch(swap_blocks_kernel, {dim3(ctas), dim3(kThreadsPerCta), 0, "launching swap_blocks"},
               stream, layer, args.host->data(), args.way, moves, num_moves, num_layers);
  }
}

}  // namespace lesson11
