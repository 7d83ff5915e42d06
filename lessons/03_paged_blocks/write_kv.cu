// The CUDA twin of write_kv. Floor: each row of K and V is read once and written once,
// 2 * 2 * num_rows * num_kv_heads * head_dim * 2 bytes. For a decode step that is a few KiB, so
// time is latency: the slots are read while the kernel that computes the rows ends.

#include "write_kv.h"

#include <cassert>

#include "kernels/launch.cuh"
#include "kv_rows.h"

namespace lesson03 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_rows, parts of a row, 2): z = 0 writes K, z = 1 writes V. A thread moves one T.
template <class T>
__global__ void write_kv_kernel(WriteKvArgs args, int row_words) {
  kv::let_successors_start();
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int word = static_cast<int>(blockIdx.y) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  const int64_t slot = args.slot_mapping[row];
  assert(slot == kNoSlot || has_slot(args.cache, slot));
  const bool is_k = blockIdx.z == 0;
  kv::wait_for_predecessors();
  if (word >= row_words || !has_slot(args.cache, slot)) return;
  const int64_t block_id = slot / args.cache.block_size;
  const auto offset = static_cast<int>(slot % args.cache.block_size);
  const T* in = static_cast<const T*>(is_k ? args.k : args.v);
  auto* out = reinterpret_cast<T*>(is_k ? k_row<uint16_t>(args.cache, block_id, offset)
                                        : v_row<uint16_t>(args.cache, block_id, offset));
  out[word] = in[row * row_words + word];
}

template <class T>
void launch_write_kv(const WriteKvArgs& args, int row_elements, const kv::Stream& stream) {
  constexpr int kElements = sizeof(T) / sizeof(uint16_t);  // bf16
  const int row_words = row_elements / kElements;
  const int parts = (row_words + kThreadsPerCta - 1) / kThreadsPerCta;
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(parts), 2);
  kv::launch_dependent(write_kv_kernel<T>, {grid, dim3(kThreadsPerCta), 0, "launching write_kv"},
                       stream, args, row_words);
}

}  // namespace

void write_kv_cuda(const WriteKvArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const int row_elements = args.cache.num_kv_heads * args.cache.head_dim;
  if (row_elements % 8 == 0) {
    launch_write_kv<uint4>(args, row_elements, stream);
  } else {
    launch_write_kv<uint16_t>(args, row_elements, stream);
  }
}

}  // namespace lesson03
