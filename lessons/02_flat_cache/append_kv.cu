// The CUDA twin of append_kv: copies each row of K and V to its slot. It is an ordinary launch,
// which waits for all work before it.

#include "flat_kv_cache.h"
#include "kernels/launch.cuh"
#include "kernels/words.cuh"

namespace lesson02 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_rows, parts of a row, 2): z = 0 copies K, z = 1 copies V. A thread copies one word.
__global__ void append_kv_kernel(AppendKvArgs args, int row_words) {
  const int64_t row = blockIdx.x;
  const int word = static_cast<int>(blockIdx.y) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  const int64_t slot = args.slab_begin[args.row_seq[row]] + args.row_position[row];
  const bool is_k = blockIdx.z == 0;
  const auto* in = static_cast<const kv::Word*>(is_k ? args.k : args.v);
  auto* cache = static_cast<kv::Word*>(is_k ? args.k_cache : args.v_cache);
  if (word < row_words) cache[slot * row_words + word] = in[row * row_words + word];
}

}  // namespace

void append_kv_cuda(const AppendKvArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const int row_words = kv::words_of(args.row_elements);
  const int parts = (row_words + kThreadsPerCta - 1) / kThreadsPerCta;
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(parts), 2);
  kv::launch(append_kv_kernel, {grid, dim3(kThreadsPerCta), 0, "launching append_kv"}, stream, args,
             row_words);
}

}  // namespace lesson02
