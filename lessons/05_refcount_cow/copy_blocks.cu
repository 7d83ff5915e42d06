// The CUDA twin of copy_blocks. Floor: every byte of a copied block is read once and written once,
// 2 * pairs * num_layers * 2 * block_size * num_kv_heads * head_dim * 2 bytes. A block of 16 tokens
// of Qwen3-0.6B has 1.75 MiB, so a copy-on-write moves 3.5 MiB: under a microsecond at the H200's
// 4.8 TB/s. What counts is that it is one launch and not one for each layer.

#include <stdexcept>

#include "copy_blocks.h"
#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_rows.h"

namespace lesson05 {
namespace {

constexpr int kThreadsPerCta = 256;
constexpr int kWordsPerThread = 4;  // loads in flight
constexpr int kWordsPerCta = kThreadsPerCta * kWordsPerThread;

/// `cache` is layer 0. Block b of layer l is block l * num_blocks + b, counted from there: true of
/// one array as of separate blocks, as both are laid out layer after layer.
/// Grid: (pairs * parts of a block, num_layers, 2): z = 0 copies K, z = 1 copies V. A thread moves
/// four Ts, a CTA's width apart.
template <class T>
__global__ void copy_blocks_kernel(lesson03::KvBlocks cache, const BlockCopy* copies, int parts,
                                   int block_words) {
  kv::let_successors_start();
  const int pair = static_cast<int>(blockIdx.x) / parts;
  const int part = static_cast<int>(blockIdx.x) % parts;
  const int64_t layer_begin = static_cast<int64_t>(blockIdx.y) * cache.num_blocks;
  kv::wait_for_predecessors();
  const int64_t source = layer_begin + copies[pair].source;
  const int64_t destination = layer_begin + copies[pair].destination;
  const bool is_k = blockIdx.z == 0;
  const auto* in = reinterpret_cast<const T*>(is_k ? lesson03::k_row<uint16_t>(cache, source, 0)
                                                   : lesson03::v_row<uint16_t>(cache, source, 0));
  auto* out = reinterpret_cast<T*>(is_k ? lesson03::k_row<uint16_t>(cache, destination, 0)
                                        : lesson03::v_row<uint16_t>(cache, destination, 0));
  const int first = part * kWordsPerCta + static_cast<int>(threadIdx.x);
  T words[kWordsPerThread];
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const int word = first + i * kThreadsPerCta;
    if (word < block_words) words[i] = in[word];
  }
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const int word = first + i * kThreadsPerCta;
    if (word < block_words) out[word] = words[i];
  }
}

template <class T>
void launch_copy_blocks(const CopyBlocksArgs& args, int block_elements, const kv::Stream& stream) {
  constexpr int kElements = sizeof(T) / sizeof(uint16_t);  // bf16
  const int block_words = block_elements / kElements;
  const int parts = (block_words + kWordsPerCta - 1) / kWordsPerCta;
  const dim3 grid(static_cast<unsigned>(args.copies.size()) * static_cast<unsigned>(parts),
                  static_cast<unsigned>(args.cache->num_layers()), 2);
  kv::launch_dependent(
      copy_blocks_kernel<T>, {grid, dim3(kThreadsPerCta), 0, "launching copy_blocks"}, stream,
      args.cache->layer(0), args.scratch->as<const BlockCopy>(), parts, block_words);
}

}  // namespace

void copy_blocks_cuda(const CopyBlocksArgs& args, const kv::Stream& stream) {
  check_copies(args);
  if (args.copies.empty()) return;
  if (args.scratch == nullptr) throw std::invalid_argument("copy_blocks: no scratch for the pairs");
  if (args.scratch->bytes() < args.copies.size_bytes()) {
    stream.synchronize();  // an earlier call may still read the old one
    *args.scratch = kv::DeviceBuffer(kv::Device::kCuda, args.copies.size_bytes() * 2);
  }
  kv::copy_to_device_async(args.scratch->data(), args.copies.data(), args.copies.size_bytes(),
                           stream);
  const lesson03::KvBlocks layer = args.cache->layer(0);
  const int block_elements = layer.block_size * layer.num_kv_heads * layer.head_dim;
  if (block_elements % 8 == 0) {
    launch_copy_blocks<uint4>(args, block_elements, stream);
  } else {
    launch_copy_blocks<uint16_t>(args, block_elements, stream);
  }
}

}  // namespace lesson05
