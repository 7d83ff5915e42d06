// The CUDA twin of write_kv: lesson 02's append_kv, but a row goes where the slot mapping says. The
// two calls of programmatic dependent launch let the threads read their slots while the rows are
// still computed.

#include "write_kv.h"

#include <cassert>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"

namespace lesson03 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_rows, parts of a row, 2): z = 0 writes K, z = 1 writes V. A thread writes one word.
__global__ void write_kv_kernel(WriteKvArgs args, int row_words) {
  kv::let_successors_start();
  const int64_t row = blockIdx.x;
  const int word = static_cast<int>(blockIdx.y) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  const int64_t slot = args.slot_mapping[row];
  assert(slot == kNoSlot || has_slot(args.cache, slot));
  kv::wait_for_predecessors();  // before it k and v may not be complete
  if (word >= row_words || !has_slot(args.cache, slot)) return;
  const int64_t block_id = slot / args.cache.block_size;
  const auto offset = static_cast<int>(slot % args.cache.block_size);
  const bool is_k = blockIdx.z == 0;
  const auto* in = static_cast<const kv::Word*>(is_k ? args.k : args.v);
  auto* out = reinterpret_cast<kv::Word*>(is_k ? k_row<uint16_t>(args.cache, block_id, offset)
                                               : v_row<uint16_t>(args.cache, block_id, offset));
  out[word] = in[row * row_words + word];
}

}  // namespace

void write_kv_cuda(const WriteKvArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const int row_words = kv::words_of(args.cache.num_kv_heads * args.cache.head_dim);
  const int parts = (row_words + kThreadsPerCta - 1) / kThreadsPerCta;
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(parts), 2);
  kv::launch_dependent(write_kv_kernel, {grid, dim3(kThreadsPerCta), 0, "launching write_kv"},
                       stream, args, row_words);
}

}  // namespace lesson03
