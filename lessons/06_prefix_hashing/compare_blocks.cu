// The CUDA twin of compare_blocks. Every byte of both blocks is read once. Counts are integers, so
// the order of the additions changes nothing.

#include "compare_blocks.h"

#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson06 {
namespace {

using lesson03::k_row;
using lesson03::KvBlocks;
using lesson03::v_row;

constexpr int kThreadsPerCta = 256;

/// `first` and `second` are layers 0; block b of layer l is block l * num_blocks + b, counted from
/// there. Grid: (pairs, num_layers, 2): z = 0 compares K, z = 1 compares V. A thread compares every
/// 256th element; a warp adds what its lanes have counted.
__global__ void compare_blocks_kernel(KvBlocks first, KvBlocks second, const BlockPair* pairs,
                                      int block_elements, unsigned long long* counts) {
  const int64_t layer = blockIdx.y;
  const int64_t in_first = layer * first.num_blocks + pairs[blockIdx.x].first;
  const int64_t in_second = layer * second.num_blocks + pairs[blockIdx.x].second;
  const bool is_k = blockIdx.z == 0;
  const auto* a = is_k ? k_row<uint16_t>(first, in_first, 0) : v_row<uint16_t>(first, in_first, 0);
  const auto* b =
      is_k ? k_row<uint16_t>(second, in_second, 0) : v_row<uint16_t>(second, in_second, 0);
  int count = 0;
  for (int i = static_cast<int>(threadIdx.x); i < block_elements; i += kThreadsPerCta) {
    count += a[i] != b[i];
  }
  count = __reduce_add_sync(0xFFFFFFFFu, count);
  if (threadIdx.x % 32 == 0 && count > 0) {
    atomicAdd(counts + blockIdx.x, static_cast<unsigned long long>(count));
  }
}

}  // namespace

std::vector<int64_t> compare_blocks_cuda(const CompareBlocksArgs& args, const kv::Stream& stream) {
  check_compared(args);
  std::vector<int64_t> counts(args.pairs.size(), 0);
  if (counts.empty()) return counts;
  const kv::DeviceBuffer pairs = kv::to_device<BlockPair>(args.pairs, stream);
  const kv::DeviceBuffer sums = kv::to_device<int64_t>(counts, stream);
  const KvBlocks first = args.first->layer(0), second = args.second->layer(0);
  const dim3 grid(static_cast<unsigned>(counts.size()),
                  static_cast<unsigned>(args.first->num_layers()), 2);
  kv::launch(compare_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching compare_blocks"},
             stream, first, second, pairs.as<const BlockPair>(),
             first.block_size * first.num_kv_heads * first.head_dim, sums.as<unsigned long long>());
  kv::copy_to_host(counts.data(), sums.data(), counts.size() * sizeof counts[0], stream);
  return counts;
}

}  // namespace lesson06
