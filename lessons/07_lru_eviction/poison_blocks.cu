// The CUDA twin of poison_blocks: a tool for tests. One launch covers all blocks in all regions; it
// is not optimized further.

#include "poison_blocks.h"

#include <stdexcept>

#include "kernels/launch.cuh"

namespace lesson07 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (blocks, regions). A thread writes every 256th byte of its CTA's block in that region.
__global__ void poison_blocks_kernel(const lesson05::Region* regions, const int32_t* ids) {
  const lesson05::Region region = regions[blockIdx.y];
  std::byte* const block = region.block(ids[blockIdx.x]);
  for (int i = static_cast<int>(threadIdx.x); i < region.bytes; i += kThreadsPerCta) {
    block[i] = std::byte{0xFF};  // all bits set: NaN
  }
}

}  // namespace

void poison_blocks_cuda(const PoisonBlocksArgs& args, const kv::Stream& stream) {
  check_poisoned(args);
  if (args.block_ids.empty()) return;
  if (args.scratch == nullptr) throw std::invalid_argument("poison_blocks: no scratch for the ids");
  const int32_t* ids = kv::upload_async(args.block_ids, *args.scratch, stream);
  const dim3 grid(static_cast<unsigned>(args.block_ids.size()),
                  static_cast<unsigned>(args.regions->list().size()));
  kv::launch(poison_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching poison_blocks"},
             stream, args.regions->on_device(), ids);
}

}  // namespace lesson07
