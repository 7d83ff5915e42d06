// The CUDA twin of compare_blocks. It reads every byte of both blocks once. Counts are integers, so
// the order of the additions changes nothing.

#include "compare_blocks.h"

#include "kernels/launch.cuh"

namespace lesson06 {
namespace {

using lesson05::Region;

constexpr int kThreadsPerCta = 256;

/// Grid: (pairs, regions). A thread compares every 256th element of its CTA's pair in that region;
/// a warp adds its lanes' counts.
__global__ void compare_blocks_kernel(const Region* first, const Region* second,
                                      const BlockPair* pairs, unsigned long long* counts) {
  const auto [id, other_id] = pairs[blockIdx.x];
  const auto* const a = first[blockIdx.y].block<const uint16_t>(id);  // of bf16 only the bits
  const auto* const b = second[blockIdx.y].block<const uint16_t>(other_id);
  const int num_elements = first[blockIdx.y].count<uint16_t>();
  int count = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_elements; i += kThreadsPerCta) {
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
  const dim3 grid(static_cast<unsigned>(counts.size()),
                  static_cast<unsigned>(args.first->list().size()));
  kv::launch(compare_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching compare_blocks"},
             stream, args.first->on_device(), args.second->on_device(), pairs.as<const BlockPair>(),
             sums.as<unsigned long long>());
  kv::copy_to_host(counts.data(), sums.data(), counts.size() * sizeof counts[0], stream);
  return counts;
}

}  // namespace lesson06
