// The CUDA twin of append_kv. Floor: each row of K and V is read once and written once. For a
// decode step that is a few KiB, so time is latency (0.6 us in a replayed graph on an H200): where
// the rows go is looked up while the kernel that computes them ends.

#include "append_kv.h"

#include "kernels/launch.cuh"

namespace lesson02 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_rows, parts of a row, 2): z = 0 copies K, z = 1 copies V. A thread copies one T.
template <class T>
__global__ void append_kv_kernel(AppendKvArgs args, int row_words) {
  kv::let_successors_start();
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int word = static_cast<int>(blockIdx.y) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  const int64_t slot = args.slab_begin[args.row_slab[row]] + args.row_position[row];
  const bool is_k = blockIdx.z == 0;
  kv::wait_for_predecessors();
  if (word >= row_words) return;
  const T* in = static_cast<const T*>(is_k ? args.k : args.v);
  T* cache = static_cast<T*>(is_k ? args.k_cache : args.v_cache);
  cache[slot * row_words + word] = in[row * row_words + word];
}

template <class T>
void launch_append_kv(const AppendKvArgs& args, const kv::Stream& stream) {
  constexpr int kElements = sizeof(T) / sizeof(uint16_t);  // bf16
  const int row_words = args.row_elements / kElements;
  const int parts = (row_words + kThreadsPerCta - 1) / kThreadsPerCta;
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(parts), 2);
  kv::launch_dependent(append_kv_kernel<T>, {grid, dim3(kThreadsPerCta), 0, "launching append_kv"},
                       stream, args, row_words);
}

}  // namespace

void append_kv_cuda(const AppendKvArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  if (args.row_elements % 8 == 0) {
    launch_append_kv<uint4>(args, stream);
  } else {
    launch_append_kv<uint16_t>(args, stream);
  }
}

}  // namespace lesson02
