// The CUDA twin of poison_blocks: a tool for tests. One launch covers all blocks, layers and
// pieces; it is not optimized further.

#include "poison_blocks.h"

#include <stdexcept>

#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson07 {
namespace {

constexpr int kThreadsPerCta = 256;

/// `cache` is layer 0; block b of layer l is block l * num_blocks + b, counted from there.
/// Grid: (blocks, num_layers, pieces): z = 0 poisons K, z = 1 poisons V. A thread writes every
/// 256th byte.
__global__ void poison_blocks_kernel(lesson03::KvBlocks cache, const int32_t* ids) {
  const int64_t block = static_cast<int64_t>(blockIdx.y) * cache.num_blocks + ids[blockIdx.x];
  const lesson03::Piece piece = cache.piece(block, static_cast<int>(blockIdx.z));
  for (int i = static_cast<int>(threadIdx.x); i < piece.bytes; i += kThreadsPerCta) {
    piece.data[i] = std::byte{0xFF};  // all bits set: NaN
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
                  static_cast<unsigned>(args.cache->num_layers()),
                  static_cast<unsigned>(layer.num_pieces()));
  kv::launch(poison_blocks_kernel, {grid, dim3(kThreadsPerCta), 0, "launching poison_blocks"},
             stream, layer, ids);
}

}  // namespace lesson07
