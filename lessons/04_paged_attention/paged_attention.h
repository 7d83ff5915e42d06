#pragma once

// Attention of this pass's queries over K and V that lie in blocks. The kernel finds each key
// through the block table, so nothing has to be gathered first. Decode steps, prefills and chunks
// of a prefill are one operation here.
//
// Source: PagedAttention (Kwon et al., 2023), section 4.3; vLLM v0.22.1 keeps the idea in its
// attention backends (block_table, seq_lens, query_start_loc are the arguments below).

#include <cstddef>
#include <cstdint>

#include "common/device.h"
#include "kernels/attention/attend.h"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson04 {

using kv::attention::Partial;
using lesson03::KvBlocks;

/// Largest block size. The kernels serve every power of two up to it.
inline constexpr int kMaxBlockSize = 256;

struct PagedAttentionArgs {
  const void* q = nullptr;  // [num_rows, num_heads, head_dim], activation dtype
  void* out = nullptr;      // [num_rows, num_heads, head_dim]
  KvBlocks cache;           // one layer; says block_size, num_kv_heads and head_dim
  /// Sequence i of the pass has the query rows first_row[i] .. first_row[i + 1] - 1. They are its
  /// last tokens, so row first_row[i + 1] - 1 is token seq_len[i] - 1. On the stream's device.
  const int32_t* first_row = nullptr;  // [num_seqs + 1]
  const int32_t* seq_len = nullptr;    // [num_seqs], tokens with K and V, this pass's included
  /// Row i is the block table of sequence i: entry t / block_size is the block of token t. Entries
  /// of tokens that no query of the pass sees, after the sequence's last block or before its
  /// window, are never read.
  const int32_t* block_tables = nullptr;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq = 0;             // entries from one table to the next
  int num_seqs = 0;
  int num_rows = 0;
  int max_rows_per_seq = 0;  // most query rows of one sequence (sizes the grid)
  int max_seq_len = 0;  // an upper bound of seq_len (sizes the grid; the same bits for any bound)
  int num_heads = 0;
  int window = 0;  // keys that a query sees at most, its own included; 0 means no limit
  /// CUDA only: room for partial results, paged_attention_workspace_bytes(). Its owner fills it
  /// with zeros once; the kernel leaves its counters at zero.
  void* workspace = nullptr;
};

/// Bytes of workspace that the CUDA twin needs for a pass of this shape. Often 0.
size_t paged_attention_workspace_bytes(const PagedAttentionArgs& args);

/// Throws std::invalid_argument for a block size that is no power of two up to kMaxBlockSize; both
/// twins call it.
void check_block_size(int block_size);

/// Appends the partial result (m, l, acc) of later keys to that of earlier ones, `a`; acc has
/// head_dim elements. The partial result of one key alone is its score, 1, and its row of V.
void merge(Partial& a, float m, float l, const float* acc, int head_dim);

/// The plain kernel: a query takes its keys one by one, in ascending order. Its bits depend on the
/// query and its keys alone, not on block size, block ids or the pass's other sequences.
void paged_attention_cpu(const PagedAttentionArgs& args);
void paged_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream);
inline void paged_attention(const PagedAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(paged_attention, args, stream);
}

/// The fast kernel, which the engines run. It adds in another order than the plain kernel, so its
/// bits are different, but they depend on the query and its keys alone, too.
void fast_paged_attention_cpu(const PagedAttentionArgs& args);
void fast_paged_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream);
inline void fast_paged_attention(const PagedAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_paged_attention, args, stream);
}

}  // namespace lesson04
