// The CUDA twin of poison_blocks. Floor: every byte of a poisoned block is written once, num_blocks
// * num_layers * 2 * block_size * num_kv_heads * head_dim * 2 bytes: 1.75 MiB for a block of
// Qwen3-0.6B. It is a tool for tests; one launch for all blocks, layers, K and V is all its care.

#include <stdexcept>

#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_rows.h"
#include "poison_blocks.h"

namespace lesson07 {
namespace {

constexpr int kThreadsPerCta = 256;

/// `cache` is layer 0; block b of layer l is block l * num_blocks + b, counted from there.
/// Grid: (blocks, num_layers, 2): z = 0 poisons K, z = 1 poisons V. A thread writes every 256th T.
template <class T>
__global__ void poison_blocks_kernel(lesson03::KvBlocks cache, const int32_t* ids,
                                     int block_words) {
  kv::let_successors_start();
  const int64_t layer_begin = static_cast<int64_t>(blockIdx.y) * cache.num_blocks;
  kv::wait_for_predecessors();
  const int64_t block = layer_begin + ids[blockIdx.x];
  auto* out = reinterpret_cast<T*>(blockIdx.z == 0 ? lesson03::k_row<uint16_t>(cache, block, 0)
                                                   : lesson03::v_row<uint16_t>(cache, block, 0));
  T poison;
  memset(&poison, 0xFF, sizeof poison);  // all bits set: NaN
  for (int word = static_cast<int>(threadIdx.x); word < block_words; word += kThreadsPerCta) {
    out[word] = poison;
  }
}

template <class T>
void launch_poison_blocks(const PoisonBlocksArgs& args, int block_elements,
                          const kv::Stream& stream) {
  constexpr int kElements = sizeof(T) / sizeof(uint16_t);  // bf16
  const dim3 grid(static_cast<unsigned>(args.block_ids.size()),
                  static_cast<unsigned>(args.cache->num_layers()), 2);
  kv::launch_dependent(
      poison_blocks_kernel<T>, {grid, dim3(kThreadsPerCta), 0, "launching poison_blocks"}, stream,
      args.cache->layer(0), args.scratch->as<const int32_t>(), block_elements / kElements);
}

}  // namespace

void poison_blocks_cuda(const PoisonBlocksArgs& args, const kv::Stream& stream) {
  check_poisoned(args);
  if (args.block_ids.empty()) return;
  if (args.scratch == nullptr) throw std::invalid_argument("poison_blocks: no scratch for the ids");
  if (args.scratch->bytes() < args.block_ids.size_bytes()) {
    stream.synchronize();  // an earlier call may still read the old one
    *args.scratch = kv::DeviceBuffer(kv::Device::kCuda, args.block_ids.size_bytes() * 2);
  }
  kv::copy_to_device_async(args.scratch->data(), args.block_ids.data(), args.block_ids.size_bytes(),
                           stream);
  const lesson03::KvBlocks layer = args.cache->layer(0);
  const int block_elements = layer.block_size * layer.num_kv_heads * layer.head_dim;
  if (block_elements % 8 == 0) {
    launch_poison_blocks<uint4>(args, block_elements, stream);
  } else {
    launch_poison_blocks<uint16_t>(args, block_elements, stream);
  }
}

}  // namespace lesson07
