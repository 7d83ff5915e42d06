// Tells kernels/attention where this lesson's rows are: the block table leads to each of them.

#include <bit>
#include <stdexcept>
#include <string>

#include "fast.h"
#include "kernels/attention/launch.cuh"

namespace lesson04 {
namespace {

using kv::attention::bf16;

/// Finds a token's row in a pool of blocks of 2^shift tokens, with one lookup for each token. Only
/// the first token of a block waits for memory; the others find the table entry in the L1 cache.
/// A row number fits in 32 bits, because 2^31 rows would not fit on any GPU
/// (fast_paged_attention_cuda refuses them). An element's number needs 64.
struct RowInBlock {
  const int32_t* table;  // of one sequence
  int shift;

  __device__ int operator()(int token) const {
    return (table[token >> shift] << shift) + (token & ((1 << shift) - 1));
  }
};

/// One layer in blocks, [num_blocks, block_size, num_kv_heads, head_dim], and the block tables of
/// this pass's sequences.
struct RowsOfBlocks {
  const bf16* k;
  const bf16* v;
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int num_blocks;
  int shift;
  int num_kv_heads;
  int head_dim;

  __device__ kv::attention::RowsBy<RowInBlock> rows(int seq, int kv_head) const {
    const int64_t begin = static_cast<int64_t>(kv_head) * head_dim;
    return {.k = k + begin,
            .v = v + begin,
            .stride = static_cast<int64_t>(num_kv_heads) * head_dim,
            .row_of = {block_tables + static_cast<int64_t>(seq) * max_blocks_per_seq, shift}};
  }
  kv::attention::LayerRows layer() const {
    return {.k = k,
            .v = v,
            .num_rows = int64_t{num_blocks} << shift,
            .row_bytes = int64_t{num_kv_heads} * head_dim * int64_t{sizeof(bf16)},
            .contiguous_tokens = 1 << shift};
  }
};

RowsOfBlocks address_of(const PagedAttentionArgs& args) {
  const KvBlocks& cache = args.cache;
  check_block_size(cache.block_size);
  if (int64_t{cache.num_blocks} * cache.block_size > INT32_MAX) {
    throw std::invalid_argument("paged attention on CUDA: " + std::to_string(cache.num_blocks) +
                                " blocks of " + std::to_string(cache.block_size) +
                                " rows, wanted fewer than 2^31 rows");
  }
  return {.k = static_cast<const bf16*>(cache.k),
          .v = static_cast<const bf16*>(cache.v),
          .block_tables = args.block_tables,
          .max_blocks_per_seq = args.max_blocks_per_seq,
          .num_blocks = cache.num_blocks,
          .shift = std::countr_zero(static_cast<unsigned>(cache.block_size)),
          .num_kv_heads = cache.num_kv_heads,
          .head_dim = cache.head_dim};
}

}  // namespace

void fast_paged_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream) {
  kv::attention::launch_attention(kv::attention::queries_of(args), address_of(args), args.workspace,
                                  stream);
}

}  // namespace lesson04
