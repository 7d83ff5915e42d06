// The CUDA twin of gather_kv. Floor: K and V of every token are read once and written once,
// 2 * 2 * tokens * num_kv_heads * head_dim * 2 bytes. The attention that follows then reads them a
// second time: that is what gathering costs.

#include "gather_kv.h"
#include "kernels/launch.cuh"
#include "kv_rows.h"

namespace lesson03 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (parts of the longest sequence, num_seqs, 2): z = 0 gathers K, z = 1 gathers V. A CTA
/// takes kThreadsPerCta words T at a time; neighbouring threads copy neighbouring words of a row.
template <class T>
__global__ void gather_kv_kernel(GatherKvArgs args, int row_words) {
  kv::let_successors_start();
  const auto seq = static_cast<int>(blockIdx.y);
  const bool is_k = blockIdx.z == 0;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t num_words = int64_t{args.seq_len[seq]} * row_words;
  T* out = static_cast<T*>(is_k ? args.k_out : args.v_out) + args.out_begin[seq] * row_words;
  kv::wait_for_predecessors();
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerCta;
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerCta + threadIdx.x; i < num_words; i += stride) {
    const auto token = static_cast<int>(i / row_words);
    const int32_t block_id = table[token / args.cache.block_size];
    const int offset = token % args.cache.block_size;
    const uint16_t* row = is_k ? k_row<uint16_t>(args.cache, block_id, offset)
                               : v_row<uint16_t>(args.cache, block_id, offset);
    out[i] = reinterpret_cast<const T*>(row)[i - int64_t{token} * row_words];
  }
}

template <class T>
void launch_gather_kv(const GatherKvArgs& args, int row_elements, const kv::Stream& stream) {
  constexpr int kElements = sizeof(T) / sizeof(uint16_t);  // bf16
  constexpr int64_t kMostParts = 4096;                     // more CTAs than that help nobody
  const int row_words = row_elements / kElements;
  const int64_t words = int64_t{args.max_seq_len} * row_words;
  const int64_t parts = (words + kThreadsPerCta - 1) / kThreadsPerCta;
  const dim3 grid(static_cast<unsigned>(parts < kMostParts ? parts : kMostParts),
                  static_cast<unsigned>(args.num_seqs), 2);
  kv::launch_dependent(gather_kv_kernel<T>, {grid, dim3(kThreadsPerCta), 0, "launching gather_kv"},
                       stream, args, row_words);
}

}  // namespace

void gather_kv_cuda(const GatherKvArgs& args, const kv::Stream& stream) {
  if (args.num_seqs == 0 || args.max_seq_len == 0) return;
  const int row_elements = args.cache.num_kv_heads * args.cache.head_dim;
  if (row_elements % 8 == 0) {
    launch_gather_kv<uint4>(args, row_elements, stream);
  } else {
    launch_gather_kv<uint16_t>(args, row_elements, stream);
  }
}

}  // namespace lesson03
