// The CUDA twins of write_kv (lesson 02's append_kv with a slot mapping) and of gather_kv.

#include "kv_blocks.h"

#include <algorithm>
#include <cassert>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"

namespace lesson03 {
namespace {

constexpr int kThreadsPerCta = 256;

/// The row of K (`is_k`) or V in slot (block_id, offset), in words.
__device__ kv::Word* row_of(const KvBlocks& cache, bool is_k, int64_t block_id, int offset) {
  return reinterpret_cast<kv::Word*>(is_k ? k_row<uint16_t>(cache, block_id, offset)
                                          : v_row<uint16_t>(cache, block_id, offset));
}

/// Grid: (num_rows, parts of a row, 2): z = 0 writes K, z = 1 writes V. A thread writes one word.
__global__ void write_kv_kernel(WriteKvArgs args, int row_words) {
  kv::let_successors_start();
  kv::wait_for_predecessors();  // until then k, v and the slots may be incomplete
  const int64_t row = blockIdx.x;
  const int word = static_cast<int>(blockIdx.y) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  const bool is_k = blockIdx.z == 0;
  const int64_t slot = args.slot_mapping[row];
  assert(slot == kNoSlot || args.cache.has_slot(slot));
  if (word >= row_words || !args.cache.has_slot(slot)) return;
  const int64_t block_id = slot / args.cache.block_size;
  const auto offset = static_cast<int>(slot % args.cache.block_size);
  const auto* in = static_cast<const kv::Word*>(is_k ? args.k : args.v);
  row_of(args.cache, is_k, block_id, offset)[word] = in[row * row_words + word];
}

/// Grid: (parts of the longest sequence, num_seqs, 2): z = 0 gathers K, z = 1 gathers V.
/// Neighbouring threads of a sequence's CTAs copy neighbouring words.
__global__ void gather_kv_kernel(GatherKvArgs args, int row_words) {
  const auto seq = static_cast<int>(blockIdx.y);
  const bool is_k = blockIdx.z == 0;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t num_words = int64_t{args.seq_len[seq]} * row_words;
  auto* out = static_cast<kv::Word*>(is_k ? args.k_out : args.v_out);
  out += args.out_begin[seq] * row_words;  // [seq_len, row_words]
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerCta;
  kv::wait_for_predecessors();  // until then this pass's rows may not be in the cache
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerCta + threadIdx.x; i < num_words; i += stride) {
    const auto token = static_cast<int>(i / row_words);
    const int32_t block_id = table[token / args.cache.block_size];
    const int offset = token % args.cache.block_size;
    out[i] = row_of(args.cache, is_k, block_id, offset)[i % row_words];
  }
}

/// The number of CTAs for this many words, one word per thread.
int64_t ctas_for(int64_t words) { return (words + kThreadsPerCta - 1) / kThreadsPerCta; }

}  // namespace

void write_kv_cuda(const WriteKvArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const int row_words = kv::words_of(args.cache.row_width());
  const dim3 grid(static_cast<unsigned>(args.num_rows), static_cast<unsigned>(ctas_for(row_words)),
                  2);
  kv::launch_dependent(write_kv_kernel, {grid, dim3(kThreadsPerCta), 0, "launching write_kv"},
                       stream, args, row_words);
}

void gather_kv_cuda(const GatherKvArgs& args, const kv::Stream& stream) {
  if (args.num_seqs == 0 || args.max_seq_len == 0) return;
  constexpr int64_t kMostParts = 4096;  // more CTAs are no faster
  const int row_words = kv::words_of(args.cache.row_width());
  const int64_t parts = std::min(ctas_for(int64_t{args.max_seq_len} * row_words), kMostParts);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.num_seqs), 2);
  kv::launch_dependent(gather_kv_kernel, {grid, dim3(kThreadsPerCta), 0, "launching gather_kv"},
                       stream, args, row_words);
  // Attention reads K and V of earlier tokens before it waits, because a cache holds them since
  // earlier passes. The gathered copy is new, so the kernels that follow must find it complete.
  kv::launch_barrier(stream);
}

}  // namespace lesson03
