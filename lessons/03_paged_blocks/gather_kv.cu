// The CUDA twin of gather_kv. K and V of every token are read once and written once, and the
// attention that follows reads them a second time: that is what gathering costs.

#include "gather_kv.h"

#include <algorithm>

#include "kernels/launch.cuh"
#include "kernels/words.cuh"

namespace lesson03 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (parts of the longest sequence, num_seqs, 2): z = 0 gathers K, z = 1 gathers V. The words
/// of a sequence are dealt to all threads of its CTAs, neighbouring words to neighbouring threads.
/// It does not let its successor start early: attention takes the K and V of earlier tokens for old
/// and reads them before it waits, but this copy of them is new.
__global__ void gather_kv_kernel(GatherKvArgs args, int row_words) {
  const auto seq = static_cast<int>(blockIdx.y);
  const bool is_k = blockIdx.z == 0;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t num_words = int64_t{args.seq_len[seq]} * row_words;
  auto* out = static_cast<kv::Word*>(is_k ? args.k_out : args.v_out);
  out += args.out_begin[seq] * row_words;  // [seq_len, row_words]
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerCta;
  kv::wait_for_predecessors();  // before it this pass's rows may not be in the cache
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerCta + threadIdx.x; i < num_words; i += stride) {
    const auto token = static_cast<int>(i / row_words);
    const int32_t block_id = table[token / args.cache.block_size];
    const int offset = token % args.cache.block_size;
    const auto* row = is_k ? k_row<uint16_t>(args.cache, block_id, offset)
                           : v_row<uint16_t>(args.cache, block_id, offset);
    out[i] = reinterpret_cast<const kv::Word*>(row)[i % row_words];
  }
}

}  // namespace

void gather_kv_cuda(const GatherKvArgs& args, const kv::Stream& stream) {
  if (args.num_seqs == 0 || args.max_seq_len == 0) return;
  constexpr int64_t kMostParts = 4096;  // more CTAs than that help nobody
  const int row_words = kv::words_of(args.cache.num_kv_heads * args.cache.head_dim);
  const int64_t words = int64_t{args.max_seq_len} * row_words;
  const int64_t parts = std::min((words + kThreadsPerCta - 1) / kThreadsPerCta, kMostParts);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.num_seqs), 2);
  kv::launch_dependent(gather_kv_kernel, {grid, dim3(kThreadsPerCta), 0, "launching gather_kv"},
                       stream, args, row_words);
}

}  // namespace lesson03
