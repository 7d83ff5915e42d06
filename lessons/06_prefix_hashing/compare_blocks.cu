// The CUDA twin of compare_blocks. It reads every byte of both blocks once. Counts are integers, so
// the order of the additions changes nothing.

#include "compare_blocks.h"

#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson06 {
namespace {

using lesson03::KvBlocks;
using lesson03::Piece;

constexpr int kThreadsPerCta = 256;

/// True if element i of two pieces differs. An element has 2 bytes, or 1.
__device__ bool differs(const Piece& a, const Piece& b, int i, int element_bytes) {
  if (element_bytes == 1) return a.data[i] != b.data[i];
  return a.as<uint16_t>()[i] != b.as<uint16_t>()[i];
}

/// `first` and `second` are each layer 0 of a cache; block b of layer l is block l * num_blocks +
/// b, counted from there. Grid: (pairs, num_layers, pieces): z = 0 compares K, z = 1 compares V. A
/// thread compares every 256th element; a warp adds its lanes' counts.
__global__ void compare_blocks_kernel(KvBlocks first, KvBlocks second, const BlockPair* pairs,
                                      unsigned long long* counts) {
  const int64_t layer = blockIdx.y;
  const int64_t in_first = layer * first.num_blocks + pairs[blockIdx.x].first;
  const int64_t in_second = layer * second.num_blocks + pairs[blockIdx.x].second;
  const auto index = static_cast<int>(blockIdx.z);
  const Piece a = first.piece(in_first, index), b = second.piece(in_second, index);
  const int piece_elements = a.bytes / first.element_bytes;
  int count = 0;
  for (int i = static_cast<int>(threadIdx.x); i < piece_elements; i += kThreadsPerCta) {
    count += differs(a, b, i, first.element_bytes);
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
                  static_cast<unsigned>(args.first->num_layers()),
                  static_cast<unsigned>(first.num_pieces()));
  kv::launch(compare_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching compare_blocks"},
             stream, first, second, pairs.as<const BlockPair>(), sums.as<unsigned long long>());
  kv::copy_to_host(counts.data(), sums.data(), counts.size() * sizeof counts[0], stream);
  return counts;
}

}  // namespace lesson06
