#pragma once

// Attention of this pass's queries over a flat cache. A decode step has one query per sequence and
// a prefill has many; this kernel serves both.

#include <cstdint>

#include "common/device.h"
#include "kernels/qk_norm_rope.h"

namespace lesson02 {

struct DecodeAttentionArgs {
  const void* q = nullptr;        // [num_rows, num_heads, head_dim], activation dtype
  const void* k_cache = nullptr;  // one layer: [token slots, num_kv_heads, head_dim]
  const void* v_cache = nullptr;  // one layer: [token slots, num_kv_heads, head_dim]
  void* out = nullptr;            // [num_rows, num_heads, head_dim]
  /// Sequence i of the pass has the query rows first_row[i] .. first_row[i + 1] - 1. They are its
  /// last tokens: row first_row[i + 1] - 1 is token seq_len[i] - 1. All on the stream's device.
  const int32_t* first_row = nullptr;   // [num_seqs + 1]
  const int32_t* seq_len = nullptr;     // [num_seqs], tokens in the cache, this pass's included
  const int64_t* slab_begin = nullptr;  // [num_seqs], first token slot of the sequence's slab
  int64_t num_slots = 0;                // token slots of the cache
  int num_seqs = 0;
  int num_rows = 0;
  int max_rows_per_seq = 0;  // most query rows of one sequence (sizes the grid)
  int max_seq_len = 0;  // an upper bound of seq_len (sizes the grid; the same bits for any bound)
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // most keys that a query sees, its own included; 0 means no limit
  /// CUDA only: room for the groups' partial results, decode_attention_workspace_bytes(). Its owner
  /// fills it with zeros once; the kernel leaves its counters at zero.
  void* workspace = nullptr;
};

/// Bytes of workspace that the CUDA twin needs for a pass of this shape; 0 if the context fits one
/// group.
size_t decode_attention_workspace_bytes(const DecodeAttentionArgs& args);

/// The plain kernel. A query visits its keys one by one, in ascending order, so its bits depend
/// only on the query and those keys.
void decode_attention_cpu(const DecodeAttentionArgs& args);
void decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream);
inline void decode_attention(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(decode_attention, args, stream);
}

/// The fast kernel, which the engines run. Its bits differ from the plain kernel's, but they too
/// depend on nothing but the query and its keys.
void fast_decode_attention_cpu(const DecodeAttentionArgs& args);
void fast_decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream);
inline void fast_decode_attention(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_decode_attention, args, stream);
}

}  // namespace lesson02
