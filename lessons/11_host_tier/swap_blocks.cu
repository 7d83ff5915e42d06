// The CUDA twin of swap_blocks. Every byte of a block crosses the bus once. A block of 16 tokens of
// Qwen3-0.6B has 1.75 MiB: 33 us at the 55 GB/s of PCIe 5.0. In the device's cache a block lies in
// 56 regions, K and V of 28 layers; one launch replaces 56 copies. The launch is small, because
// more CTAs than the bus needs would delay the passes.

#include "swap_blocks.h"

#include <algorithm>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"

namespace lesson11 {
namespace {

// The fewest CTAs that keep PCIe 5.0 busy (./course bench 11). With 16 an offload alone is no
// faster, and the reads of a pass beside it take 2.6 times as long.
constexpr int kCtasToOffload = 2, kCtasToLoad = 4;
constexpr int kThreadsPerCta = 512;
constexpr int kWordsInFlight = 4;        // per thread: the bus is fast, but its latency is long
constexpr size_t kMovesPerLaunch = 256;  // arguments of 2 KiB; any GPU takes 4
struct Moves {
  BlockMove move[kMovesPerLaunch];
};

/// `host` is [num_ids][bytes_per_block]. A part of the work is a block in one region.
/// Grid: no more CTAs than the bus needs, unless max_ctas asks for more; each copies every
/// gridDim.x-th part.
__global__ void swap_blocks_kernel(const lesson05::Region* regions, int num_regions,
                                   std::byte* host, int64_t bytes_per_block, Direction direction,
                                   Moves moves, int num_moves) {
  for (auto i = static_cast<int>(blockIdx.x); i < num_moves * num_regions;
       i += static_cast<int>(gridDim.x)) {
    const auto [device_id, host_id] = moves.move[i / num_regions];
    const lesson05::Region region = regions[i % num_regions];
    auto* const on_device = region.block<kv::Word>(device_id);
    auto* const in_host =
        reinterpret_cast<kv::Word*>(host + host_id * bytes_per_block + region.begin);
    const int num_words = region.count<kv::Word>();
    const kv::Word* const from = direction == Direction::kOffload ? on_device : in_host;
    kv::Word* const to = direction == Direction::kOffload ? in_host : on_device;
    for (auto at = static_cast<int>(threadIdx.x); at < num_words;
         at += kThreadsPerCta * kWordsInFlight) {
      kv::Word words[kWordsInFlight];
#pragma unroll
      for (int w = 0; w < kWordsInFlight; ++w) {
        if (at + w * kThreadsPerCta < num_words) words[w] = from[at + w * kThreadsPerCta];
      }
#pragma unroll
      for (int w = 0; w < kWordsInFlight; ++w) {
        if (at + w * kThreadsPerCta < num_words) to[at + w * kThreadsPerCta] = words[w];
      }
    }
  }
}

}  // namespace

void swap_blocks_cuda(const SwapBlocksArgs& args, const kv::Stream& stream) {
  check_moves(args);
  const auto num_regions = static_cast<int>(args.regions->list().size());
  const int enough = args.direction == Direction::kOffload ? kCtasToOffload : kCtasToLoad;
  const int max_ctas = args.max_ctas > 0 ? args.max_ctas : enough;
  for (const lesson05::Region& region : args.regions->list()) kv::check_words(region.bytes);
  for (size_t first = 0; first < args.moves.size(); first += kMovesPerLaunch) {
    const auto now =
        args.moves.subspan(first, std::min(kMovesPerLaunch, args.moves.size() - first));
    const auto num_moves = static_cast<int>(now.size());
    Moves moves;
    std::ranges::copy(now, moves.move);
    const auto ctas = static_cast<unsigned>(std::min(max_ctas, num_moves * num_regions));
    kv::launch(swap_blocks_kernel, {dim3(ctas), dim3(kThreadsPerCta), 0, "launching swap_blocks"},
               stream, args.regions->on_device(), num_regions, args.host->data(),
               args.regions->bytes_per_block(), args.direction, moves, num_moves);
  }
}

}  // namespace lesson11
