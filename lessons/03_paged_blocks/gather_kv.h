#pragma once

// Copies the rows of sequences out of a paged cache, in token order, into contiguous memory: for a
// kernel that knows nothing of blocks. Source: vLLM's gather_and_maybe_dequant_cache (v0.22.1).

#include <cstdint>

#include "common/base/device.h"
#include "kv_blocks.h"

namespace lesson03 {

struct GatherKvArgs {
  KvBlocks cache;  // one layer
  /// Row i is the block table of sequence i; what lies after its last block is never read. On the
  /// stream's device, as the arrays below.
  const int32_t* block_tables = nullptr;  // [num_seqs, max_blocks_per_seq]
  const int32_t* seq_len = nullptr;       // [num_seqs], tokens to gather
  const int64_t* out_begin = nullptr;     // [num_seqs], first row of each sequence in k_out, v_out
  int max_blocks_per_seq = 0;
  int num_seqs = 0;
  int max_seq_len = 0;    // an upper bound of seq_len (sizes the grid)
  void* k_out = nullptr;  // [rows, num_kv_heads, head_dim]
  void* v_out = nullptr;
};

void gather_kv_cpu(const GatherKvArgs& args);
void gather_kv_cuda(const GatherKvArgs& args, const kv::Stream& stream);
inline void gather_kv(const GatherKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(gather_kv, args, stream);
}

}  // namespace lesson03
