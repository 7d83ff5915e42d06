#pragma once

// Attention over the whole sequence, with no cache: K and V are rows of this very pass.

#include <cstdint>

#include "common/device.h"
#include "kernels/attention/contract.h"

namespace lesson01 {

struct CausalAttentionArgs {
  const void* q = nullptr;  // [num_rows, num_heads, head_dim], activation dtype
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim]
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  void* out = nullptr;      // [num_rows, num_heads, head_dim]
  /// Sequences are stored back to back: sequence i has rows first_row[i] .. first_row[i + 1] - 1,
  /// its token 0 first. On the stream's device.
  const int32_t* first_row = nullptr;  // [num_seqs + 1]
  int num_seqs = 0;
  int num_rows = 0;
  int max_seq_len = 0;  // longest sequence of the pass (sizes the grid)
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // most keys that a query sees, its own included; 0 means no limit
};

/// The online softmax of one query over the keys so far.
struct OnlineSoftmax {
  float m;                                // largest score so far
  float l;                                // sum of exp(score - m)
  float acc[kv::attention::kMaxHeadDim];  // sum of exp(score - m) * v, [head_dim]
};

/// The score of a key: the dot product of q and k times scale, summed in ascending order of the
/// elements. The plain CPU kernel consists of this and add_key().
float score_of(const float* q, const float* k, int head_dim, float scale);
/// Adds one more key. If it raises m, the sums so far are rescaled from the old m to the new one.
void add_key(OnlineSoftmax& sum, float score, const float* v, int head_dim);

/// The plain kernel. A query visits its keys one by one, in ascending order, so its bits depend
/// only on the query and those keys.
void causal_attention_cpu(const CausalAttentionArgs& args);
void causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream);
inline void causal_attention(const CausalAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(causal_attention, args, stream);
}

/// The fast kernel, which the engines run. Its bits differ from the plain kernel's, but they too
/// depend on nothing but the query and its keys.
void fast_causal_attention_cpu(const CausalAttentionArgs& args);
void fast_causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream);
inline void fast_causal_attention(const CausalAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_causal_attention, args, stream);
}

}  // namespace lesson01
