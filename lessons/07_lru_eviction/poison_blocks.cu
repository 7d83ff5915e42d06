// The CUDA twin of poison_blocks: a tool for tests. One launch covers all blocks, all layers, K and
// V; it is not optimized further.

#include "poison_blocks.h"

#include <stdexcept>

#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson07 {
namespace {

constexpr int kThreadsPerCta = 256;

/// `cache` is layer 0; block b of layer l is block l * num_blocks + b, counted from there.
/// Grid: (blocks, num_layers, 2): z = 0 poisons K, z = 1 poisons V. A thread writes every 256th
/// element.
__global__ void poison_blocks_kernel(lesson03::KvBlocks cache, const int32_t* ids,
                                     int block_elements) {
  const int64_t block = static_cast<int64_t>(blockIdx.y) * cache.num_blocks + ids[blockIdx.x];
  auto* out = blockIdx.z == 0 ? lesson03::k_row<uint16_t>(cache, block, 0)
                              : lesson03::v_row<uint16_t>(cache, block, 0);
  for (int i = static_cast<int>(threadIdx.x); i < block_elements; i += kThreadsPerCta) {
    out[i] = 0xFFFF;  // all bits set: NaN
  }
}

}  // namespace

void poison_blocks_cuda(const PoisonBlocksArgs& args, const kv::Stream& stream) {
  check_poisoned(args);
  if (args.block_ids.empty()) return;
  if (args.scratch == nullptr) throw std::invalid_argument("poison_blocks: no scratch for the ids");
  const int32_t* ids = kv::upload_async(args.block_ids, *args.scratch, stream);
  const lesson03::KvBlocks layer = args.cache->layer(0);
  const dim3 grid(static_cast<unsigned>(args.block_ids.size()),
                  static_cast<unsigned>(args.cache->num_layers()), 2);
  kv::launch(poison_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching poison_blocks"},
             stream, layer, ids, layer.block_size * layer.num_kv_heads * layer.head_dim);
}

}  // namespace lesson07
