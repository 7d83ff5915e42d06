// The CUDA twin of compare_blocks. Floor: every byte of both blocks is read once, pairs *
// num_layers * 4 * block_size * num_kv_heads * head_dim * 2 bytes: 3.5 MiB for a pair of
// Qwen3-0.6B's blocks of 16. Counts are integers, so the order of the additions changes nothing.

#include "compare_blocks.h"
#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/kv_rows.h"

namespace lesson06 {
namespace {

using lesson03::KvBlocks;

constexpr int kThreadsPerCta = 256;
constexpr unsigned kWarp = 32;

__device__ int num_differing(uint16_t a, uint16_t b) { return a != b; }
/// Of eight bf16: __vsetne2 leaves a one for each half that differs.
__device__ int num_differing(uint4 a, uint4 b) {
  return __popc(__vsetne2(a.x, b.x)) + __popc(__vsetne2(a.y, b.y)) + __popc(__vsetne2(a.z, b.z)) +
         __popc(__vsetne2(a.w, b.w));
}

template <class T>
__device__ const T* words_of(const KvBlocks& cache, int64_t block, bool is_k) {
  return reinterpret_cast<const T*>(is_k ? lesson03::k_row<uint16_t>(cache, block, 0)
                                         : lesson03::v_row<uint16_t>(cache, block, 0));
}

/// `first` and `second` are layers 0; block b of layer l is block l * num_blocks + b, counted from
/// there. Grid: (pairs, num_layers, 2): z = 0 compares K, z = 1 compares V. A thread reads every
/// 256th T, a warp adds what its lanes have counted.
template <class T>
__global__ void compare_blocks_kernel(KvBlocks first, KvBlocks second, const BlockPair* pairs,
                                      int block_words, unsigned long long* counts) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  const BlockPair pair = pairs[blockIdx.x];
  const int64_t layer = blockIdx.y;
  const bool is_k = blockIdx.z == 0;
  const T* a = words_of<T>(first, layer * first.num_blocks + pair.first, is_k);
  const T* b = words_of<T>(second, layer * second.num_blocks + pair.second, is_k);
  int count = 0;
  for (int word = static_cast<int>(threadIdx.x); word < block_words; word += kThreadsPerCta) {
    count += num_differing(a[word], b[word]);
  }
  count = __reduce_add_sync(~0u, count);
  if (threadIdx.x % kWarp == 0 && count > 0) {
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
  const int elements = first.block_size * first.num_kv_heads * first.head_dim;
  const bool wide = elements % 8 == 0;  // rows of bf16 in words of 16 bytes
  const dim3 grid(static_cast<unsigned>(counts.size()),
                  static_cast<unsigned>(args.first->num_layers()), 2);
  kv::launch_dependent(wide ? compare_blocks_kernel<uint4> : compare_blocks_kernel<uint16_t>,
                       {grid, dim3(kThreadsPerCta), 0, "launching compare_blocks"}, stream, first,
                       second, pairs.as<const BlockPair>(), wide ? elements / 8 : elements,
                       sums.as<unsigned long long>());
  kv::copy_to_host(counts.data(), sums.data(), counts.size() * sizeof counts[0], stream);
  return counts;
}

}  // namespace lesson06
